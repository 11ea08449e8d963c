! V-cycles of a 3-D multigrid on a periodic grid of (2**k)**3, 27-point operators.
program multigrid
  implicit none
  type grid
    real(8), allocatable :: u(:,:,:), v(:,:,:), r(:,:,:)
  end type
  integer, parameter :: top = 6, cycles = 8
  type(grid) :: g(top)
  integer :: k, n, c
  do k = 1, top
    n = 2**k
    allocate(g(k)%u(0:n+1,0:n+1,0:n+1), g(k)%v(0:n+1,0:n+1,0:n+1), g(k)%r(0:n+1,0:n+1,0:n+1))
    g(k)%u = 0; g(k)%v = 0; g(k)%r = 0
  end do
  g(top)%v(3, 5, 7) = 1; g(top)%v(9, 20, 11) = -1
  do c = 1, cycles
    call residual(2**top, g(top)%u, g(top)%v, g(top)%r)
    do k = top, 2, -1
      call restrict(2**(k-1), g(k)%r, g(k-1)%r)
      g(k-1)%v = g(k-1)%r
      g(k-1)%u = 0
    end do
    call smooth(2, g(1)%r, g(1)%u)
    do k = 2, top
      call prolong(2**(k-1), g(k-1)%u, g(k)%u)
      call residual(2**k, g(k)%u, g(k)%v, g(k)%r)
      call smooth(2**k, g(k)%r, g(k)%u)
    end do
  end do
  print *, sum(g(top)%u**2)
contains
  subroutine wrap(n, u)
    integer, intent(in) :: n
    real(8), intent(inout) :: u(0:n+1,0:n+1,0:n+1)
    u(0,:,:) = u(n,:,:); u(n+1,:,:) = u(1,:,:)
    u(:,0,:) = u(:,n,:); u(:,n+1,:) = u(:,1,:)
    u(:,:,0) = u(:,:,n); u(:,:,n+1) = u(:,:,1)
  end subroutine
  subroutine residual(n, u, v, r)
    integer, intent(in) :: n
    real(8), intent(in) :: u(0:n+1,0:n+1,0:n+1), v(0:n+1,0:n+1,0:n+1)
    real(8), intent(inout) :: r(0:n+1,0:n+1,0:n+1)
    real(8) :: edge(0:n+1), corner(0:n+1)
    integer :: i, j, k
    do k = 1, n
      do j = 1, n
        do i = 0, n+1
          edge(i) = u(i,j-1,k) + u(i,j+1,k) + u(i,j,k-1) + u(i,j,k+1)
          corner(i) = u(i,j-1,k-1) + u(i,j+1,k-1) + u(i,j-1,k+1) + u(i,j+1,k+1)
        end do
        do i = 1, n
          r(i,j,k) = v(i,j,k) + 8d0/3*u(i,j,k) - (corner(i) + edge(i-1) + edge(i+1))/6 &
            - (corner(i-1) + corner(i+1))/12
        end do
      end do
    end do
    call wrap(n, r)
  end subroutine
  subroutine smooth(n, r, u)
    integer, intent(in) :: n
    real(8), intent(in) :: r(0:n+1,0:n+1,0:n+1)
    real(8), intent(inout) :: u(0:n+1,0:n+1,0:n+1)
    real(8) :: edge(0:n+1), corner(0:n+1)
    integer :: i, j, k
    do k = 1, n
      do j = 1, n
        do i = 0, n+1
          edge(i) = r(i,j-1,k) + r(i,j+1,k) + r(i,j,k-1) + r(i,j,k+1)
          corner(i) = r(i,j-1,k-1) + r(i,j+1,k-1) + r(i,j-1,k+1) + r(i,j+1,k+1)
        end do
        do i = 1, n
          u(i,j,k) = u(i,j,k) - 0.375d0*r(i,j,k) - (r(i-1,j,k) + r(i+1,j,k) + edge(i))/32 &
            + (corner(i) + edge(i-1) + edge(i+1))/64
        end do
      end do
    end do
    call wrap(n, u)
  end subroutine
  subroutine restrict(m, fine, coarse)
    integer, intent(in) :: m
    real(8), intent(in) :: fine(0:2*m+1,0:2*m+1,0:2*m+1)
    real(8), intent(inout) :: coarse(0:m+1,0:m+1,0:m+1)
    integer :: i, j, k
    do k = 1, m
      do j = 1, m
        do i = 1, m
          coarse(i,j,k) = 0.5d0*fine(2*i,2*j,2*k) + 0.25d0*(fine(2*i-1,2*j,2*k) + fine(2*i+1,2*j,2*k) &
            + fine(2*i,2*j-1,2*k) + fine(2*i,2*j+1,2*k) + fine(2*i,2*j,2*k-1) + fine(2*i,2*j,2*k+1))/3
        end do
      end do
    end do
    call wrap(m, coarse)
  end subroutine
  subroutine prolong(m, coarse, fine)
    integer, intent(in) :: m
    real(8), intent(in) :: coarse(0:m+1,0:m+1,0:m+1)
    real(8), intent(inout) :: fine(0:2*m+1,0:2*m+1,0:2*m+1)
    integer :: i, j, k
    do k = 1, m
      do j = 1, m
        do i = 1, m
          fine(2*i,2*j,2*k) = fine(2*i,2*j,2*k) + coarse(i,j,k)
          fine(2*i-1,2*j,2*k) = fine(2*i-1,2*j,2*k) + 0.5d0*(coarse(i-1,j,k) + coarse(i,j,k))
          fine(2*i,2*j-1,2*k) = fine(2*i,2*j-1,2*k) + 0.5d0*(coarse(i,j-1,k) + coarse(i,j,k))
          fine(2*i,2*j,2*k-1) = fine(2*i,2*j,2*k-1) + 0.5d0*(coarse(i,j,k-1) + coarse(i,j,k))
          fine(2*i-1,2*j-1,2*k-1) = fine(2*i-1,2*j-1,2*k-1) + 0.5d0*(coarse(i-1,j-1,k-1) + coarse(i,j,k))
        end do
      end do
    end do
    call wrap(2*m, fine)
  end subroutine
end program
