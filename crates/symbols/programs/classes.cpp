// Namespaces, classes, templates, statics.
namespace outer {
namespace {
int hidden = 1;
}
struct Base {
    int first;
};
struct Shape : Base {
    static long count;
    inline static int made = 3;
    double size;
    int area(int k);
};
long Shape::count = 4;
int Shape::area(int k)
{
    static int asked;
    asked++;
    return k + static_cast<int>(size) + hidden + made;
}
template <class T> struct Box {
    T value;
    __attribute__((noinline)) T get() { return value; }
};
Box<int> box{7};
Shape shapes[2];
}

int main()
{
    return outer::shapes[0].area(3) + outer::box.get() + static_cast<int>(outer::Shape::count);
}
