# Writes a C file of more than 5,000 lines: 500 small functions and a main that calls them all.
BEGIN {
    print "#include <stdio.h>"
    for (i = 0; i < 500; i++) {
        printf "static int f%d(int x)\n{\n    int s = %d;\n", i, i
        printf "    for (int i = 0; i < x; i++)\n        s = s * 31 + (i ^ %d);\n", i * 7
        printf "    if (s & 1)\n        s -= x;\n    return s;\n}\n"
    }
    print "int main(void)\n{\n    int s = 0;"
    for (i = 0; i < 500; i++)
        printf "    s += f%d(s & 15);\n", i
    print "    printf(\"%d\\n\", s);\n    return 0;\n}"
}
