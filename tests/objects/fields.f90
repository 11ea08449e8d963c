! COMMON and allocatable arrays: in /shared/ x has 100 writes and 100 reads, y 50 writes; matrix has 600 writes and 600 reads.
program fields
  implicit none
  integer :: i, j
  double precision :: x(100), y(50), total
  common /shared/ x, y
  double precision, allocatable :: matrix(:, :)
  do i = 1, 100
    x(i) = i
  end do
  do i = 1, 50
    y(i) = i
  end do
  allocate(matrix(20, 30))
  do j = 1, 30
    do i = 1, 20
      matrix(i, j) = i + j
    end do
  end do
  total = 0
  do i = 1, 100
    total = total + x(i)
  end do
  do i = 1, 20
    do j = 1, 30
      total = total + matrix(i, j)
    end do
  end do
  deallocate(matrix)
  if (total /= 5050 + 15600) stop 1
end program fields
