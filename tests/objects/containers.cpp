// Containers of the standard library.
//   numbers: 1000 writes, 1000 reads; table: 300 nodes of 48 bytes, of each the value written and read once by table_;
//   text: 5001 bytes, 10000 writes by append (each also ends the string anew) and one by reserve, 5000 reads; owned: 64 writes, 64 reads.
#include <map>
#include <memory>
#include <string>
#include <vector>

static long numbers_() {
    std::vector<long> numbers;
    numbers.reserve(1000);
    for (long i = 0; i < 1000; i++)
        numbers.push_back(i);
    long sum = 0;
    for (unsigned long i = 0; i < numbers.size(); i++)
        sum += numbers[i];
    return sum;
}

static long table_() {
    std::map<int, long> table;
    for (int i = 0; i < 300; i++)
        table[i] = i;
    long sum = 0;
    for (auto &entry : table)
        sum += entry.second;
    return sum;
}

static long text_() {
    std::string text;
    text.reserve(5000);
    for (int i = 0; i < 5000; i++)
        text += 'a';
    long sum = 0;
    for (int i = 0; i < 5000; i++)
        sum += text[i] == 'a';
    return sum;
}

static long owned_() {
    std::unique_ptr<long[]> owned(new long[64]);
    long sum = 0;
    for (int i = 0; i < 64; i++)
        owned[i] = i;
    for (int i = 0; i < 64; i++)
        sum += owned[i];
    return sum;
}

int main() {
    return numbers_() == 499500 && table_() == 44850 && text_() == 5000 && owned_() == 2016 ? 0 : 1;
}
