// C++ exceptions thrown through several frames, caught by type, rethrown, with destructors on the way.
// guest: build=static-pie flags=-O1
#include <cstdio>
#include <stdexcept>
#include <string>
static int destroyed;
struct Witness { ~Witness() { destroyed++; } };
__attribute__((noinline)) static int deep(int n) {
    Witness witness;
    if (n == 0) throw std::runtime_error("bottom");
    if (n == 100) throw 7;
    return deep(n - 1) + 1;
}
__attribute__((noinline)) static int middle(int n) {
    Witness witness;
    try { return deep(n); } catch (const std::exception &e) { throw std::string(e.what()); }
}
int main() {
    int numbers = 0;
    for (int n : {2, 100, 4}) {
        try { middle(n); }
        catch (int i) { numbers += i; }
        catch (const std::string &s) { numbers += 100 * s.size(); }
    }
    std::printf("%d %d\n", numbers, destroyed);
    return 0;
}
