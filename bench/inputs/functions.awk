# Writes C functions of random shape, the same for the same n: arithmetic, branches, loops, switches, structures and
# calls, so that a compiler's every pass has something to do and no two functions are alike.
# usage: awk -v n=FUNCTIONS -f functions.awk
function draw(below) {
    state = (state * 16807) % 2147483647
    return state % below
}
function operand(    k) {
    k = draw(6)
    if (k == 0) return draw(1000) + 1
    if (k == 1) return "p->" substr("abcd", draw(4) + 1, 1)
    if (k == 2) return "t[(" local() " & 63)]"
    return local()
}
function local() { return "v" draw(5) }
function expression(depth,    k) {
    if (depth == 0) return operand()
    k = draw(9)
    if (k == 7) return "(" expression(depth - 1) " < " expression(depth - 1) " ? " operand() " : " operand() ")"
    if (k == 8 && made > 0) return "f" draw(made) "(p, " expression(depth - 1) ")"
    return "(" expression(depth - 1) " " operator[k % 7 + 1] " " expression(depth - 1) ")"
}
function statement(depth, indent,    k, i, counter) {
    k = draw(depth > 0 ? 8 : 4)
    if (k < 3) print indent local() " " substr("-+^", draw(3) + 1, 1) "= " expression(2) ";"
    else if (k == 3) print indent "t[" local() " & 63] = " expression(2) ";"
    else if (k == 4) {
        print indent "if (" expression(2) ") {"; block(depth - 1, indent)
        print indent "} else {"; block(depth - 1, indent); print indent "}"
    } else if (k == 5) {
        counter = "i" depth
        print indent "for (unsigned " counter " = 0; " counter " < (" operand() " & 31); " counter "++) {"
        block(depth - 1, indent); print indent "}"
    } else if (k == 6) {
        print indent "switch (" local() " & 7) {"
        for (i = 0; i < 5; i++) { print indent "case " i ":"; statement(depth - 1, indent "    "); print indent "    break;" }
        print indent "}"
    } else print indent "p->" substr("abcd", draw(4) + 1, 1) " = " expression(3) ";"
}
function block(depth, indent,    i, count) {
    count = 1 + draw(3)
    for (i = 0; i < count; i++) statement(depth, indent "    ")
}
BEGIN {
    state = 1
    split("+ - * ^ & | +", operator, " ")
    print "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>"
    print "struct s { unsigned a, b, c, d; };\nstatic unsigned t[64];"
    for (made = 0; made < n; made++) {
        printf "unsigned f%d(struct s *p, unsigned v0)\n{\n", made
        print "    unsigned v1 = v0 * 3, v2 = p->a, v3 = p->b ^ v0, v4 = 1;"
        for (j = 0; j < 6; j++) statement(3, "    ")
        print "    return v0 + v1 + v2 + v3 + v4;\n}"
    }
}
