! COMMON blocks, modules, allocatable arrays.
module grid
  implicit none
  real(8) :: u(4, 0:5)
  integer :: steps = 0
  real(8), allocatable :: work(:)
contains
  subroutine advance(n)
    integer, intent(in) :: n
    integer :: i
    do i = 1, n
      u(i, 1) = u(i, 0) + 1
    end do
    steps = steps + 1
  end subroutine
end module

subroutine touch(k)
  implicit none
  integer :: k
  real(8) :: a(10, 3), b
  integer :: flags(2)
  common /blk/ a, b, flags
  a(k, 2) = b
  flags(1) = k
end subroutine

program simulate
  use grid
  implicit none
  allocate (work(100))
  work(1) = 2
  call advance(3)
  call touch(4)
  print *, steps
end program
