# Vector kernels and threaded BLAS on whole numbers, so that the order of sums cannot matter.
import numpy as np
a = (np.arange(300 * 300) % 17).reshape(300, 300).astype(np.float64)
b = (np.arange(300 * 300) % 13).reshape(300, 300).astype(np.float64)
print(int((a @ b).sum()), int((a @ b)[7, 9]))
v = np.arange(200000, dtype=np.int64)
print(int(((v * 7919) % 10007).sum()), int(np.sort((v * 31) % 1009)[777]))
print(int((v[(v % 3) == 0] ** 2).sum()), int(np.bitwise_xor.reduce(v)))
print(int(np.add.at(z := np.zeros(50, np.int64), v % 50, v) is None), int(z.sum()))
