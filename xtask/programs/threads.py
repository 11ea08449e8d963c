# Threads, subprocesses, pipes, a pool of forked workers, and an exception through C frames.
import multiprocessing, os, queue, signal, subprocess, sys, threading

def work(todo, done):
    while (item := todo.get()) is not None:
        done.put((item, sum(i * i for i in range(item))))

todo, done = queue.Queue(), queue.Queue()
threads = [threading.Thread(target=work, args=(todo, done)) for _ in range(8)]
for t in threads: t.start()
for n in range(200): todo.put(n)
for _ in threads: todo.put(None)
for t in threads: t.join()
print(sorted(done.queue)[-1], done.qsize())

print(subprocess.run(["tr", "a-z", "A-Z"], input=b"through a pipe", capture_output=True).stdout)
print(subprocess.run([sys.executable, "-c", "import sys; sys.exit(7)"]).returncode)
print(subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode)

def square(n):
    return n * n

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(square, range(1000))))
    child = os.fork()
    if child == 0:
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    signal.signal(signal.SIGUSR1, lambda *_: print("signalled"))
    os.kill(os.getpid(), signal.SIGUSR1)
    try:
        sorted([3, 1, 2], key=lambda x: 1 / (x - 1))
    except ZeroDivisionError as error:
        print(error)
