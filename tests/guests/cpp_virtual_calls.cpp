// Virtual calls, member pointers and lambdas through std::function.
// guest: build=static
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>
struct Shape { virtual long area() const = 0; virtual ~Shape() = default; };
struct Square : Shape { long a; explicit Square(long a) : a(a) {} long area() const override { return a * a; } };
struct Rectangle : Square { long b; Rectangle(long a, long b) : Square(a), b(b) {} long area() const override { return a * b; } };
int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    for (long i = 0; i < 10; i++)
        if (i % 3) shapes.push_back(std::make_unique<Square>(i));
        else shapes.push_back(std::make_unique<Rectangle>(i, i + 1));
    long total = 0;
    std::function<void(long)> add = [&total](long x) { total += x; };
    long (Shape::*method)() const = &Shape::area;
    for (auto &s : shapes) add((s.get()->*method)());
    std::printf("%ld\n", total);
    return 0;
}
