! 3-D Fourier transforms of n**3 complex numbers, line by line through a buffer, some times.
program fft
  implicit none
  integer, parameter :: bits = 6, n = 2**bits, rounds = 6
  complex(8) :: a(n,n,n), roots(0:n-1), line(n)
  integer :: i, j, k, round
  real(8), parameter :: pi = 3.14159265358979d0
  do i = 0, n-1
    roots(i) = exp(cmplx(0, -2*pi*i/n, 8))
  end do
  do k = 1, n
    do j = 1, n
      do i = 1, n
        a(i,j,k) = cmplx(mod(i*j, 7), mod(j*k, 5), 8)
      end do
    end do
  end do
  do round = 1, rounds
    do k = 1, n
      do j = 1, n
        line = a(:,j,k); call transform(line); a(:,j,k) = line/n
      end do
    end do
    do k = 1, n
      do i = 1, n
        line = a(i,:,k); call transform(line); a(i,:,k) = line
      end do
    end do
    do j = 1, n
      do i = 1, n
        line = a(i,j,:); call transform(line); a(i,j,:) = line
      end do
    end do
  end do
  print *, abs(sum(a))
contains
  subroutine transform(x)
    complex(8), intent(inout) :: x(n)
    complex(8) :: y(n), t
    integer :: half, step, i, j, at
    at = 1
    y = x
    do i = 1, n
      if (i < at) then
        t = x(i); x(i) = x(at); x(at) = t
      end if
      j = n/2
      do while (j >= 1 .and. at > j)
        at = at - j; j = j/2
      end do
      at = at + j
    end do
    half = 1
    do while (half < n)
      step = n/(2*half)
      do i = 1, n, 2*half
        do j = 0, half-1
          t = roots(j*step)*x(i+j+half)
          x(i+j+half) = x(i+j) - t
          x(i+j) = x(i+j) + t
        end do
      end do
      half = 2*half
    end do
  end subroutine
end program
