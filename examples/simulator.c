/* A simulator in C for suffice's Model.command: x is an AR(1) series of 20 values.

   Reads  {"theta": {"phi": 0.3, "sigma": 1.2}, "seed": 12345}  from standard input,
   writes {"x": [...]}                                          to standard output.

   Build: cc -O2 -o simulator simulator.c -lm                   */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static double uniform(void) { /* splitmix64, in (0, 1) */
    uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    return ((z >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) {
    double radius = sqrt(-2.0 * log(uniform()));
    return radius * cos(6.283185307179586 * uniform());
}

/* The number after "name": in the order. A real program would use a JSON library. */
static double value(const char *order, const char *name) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *place = strstr(order, quoted);
    if (!place || !(place = strchr(place, ':'))) {
        fprintf(stderr, "the order lacks %s: %s\n", name, order);
        exit(1);
    }
    return strtod(place + 1, NULL);
}

int main(void) {
    char order[4096];
    size_t length = fread(order, 1, sizeof order - 1, stdin);
    order[length] = '\0';
    double phi = value(order, "phi"), sigma = value(order, "sigma");
    state = (uint64_t)value(order, "seed");

    double x = sigma / sqrt(1.0 - phi * phi) * normal();
    printf("{\"x\": [%.17g", x);
    for (int t = 1; t < 20; t++) {
        x = phi * x + sigma * normal();
        printf(", %.17g", x);
    }
    printf("]}\n");
    return 0;
}
