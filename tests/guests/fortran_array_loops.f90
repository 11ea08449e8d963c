! Fortran loops over two-dimensional arrays: column order, row order, whole-array expressions.
! guest: build=static flags=-O2
program loops
  implicit none
  integer, parameter :: n = 12
  real(8) :: a(n, n), b(n, n), c(n)
  integer :: i, j
  do j = 1, n
    do i = 1, n
      a(i, j) = i + 2 * j
    end do
  end do
  do i = 1, n
    do j = 2, n
      a(i, j) = a(i, j) + 0.5d0 * a(i, j - 1)
    end do
  end do
  b = transpose(a) * 2 + a
  c = matmul(b, a(:, 1))
  print '(f12.3, f14.3)', sum(b), c(n)
end program
