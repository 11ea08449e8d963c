/* Clustering of points with 16 coordinates around 8 centres. */
#include <stdio.h>
#include <stdlib.h>

enum { D = 16, K = 8 };

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 20000, rounds = argc > 2 ? atoi(argv[2]) : 4;
    float (*point)[D] = malloc(sizeof *point * n), centre[K][D], sum[K][D];
    int *cluster = malloc(sizeof *cluster * n), count[K];
    unsigned long state = 3;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < D; d++) state = state * 6364136223846793005UL + 1442695040888963407UL, point[i][d] = (state >> 40) * 1e-6f;
    for (int k = 0; k < K; k++)
        for (int d = 0; d < D; d++) centre[k][d] = point[k * 97 % n][d];
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < K; k++) {
            count[k] = 0;
            for (int d = 0; d < D; d++) sum[k][d] = 0;
        }
        for (int i = 0; i < n; i++) {
            float nearest = 1e30f;
            int best = 0;
            for (int k = 0; k < K; k++) {
                float distance = 0;
                for (int d = 0; d < D; d++) {
                    float difference = point[i][d] - centre[k][d];
                    distance += difference * difference;
                }
                if (distance < nearest) nearest = distance, best = k;
            }
            cluster[i] = best, count[best]++;
            for (int d = 0; d < D; d++) sum[best][d] += point[i][d];
        }
        for (int k = 0; k < K; k++)
            for (int d = 0; d < D; d++) centre[k][d] = sum[k][d] / (count[k] + 1e-9f);
    }
    printf("%g %d\n", centre[3][5], cluster[n / 2]);
}
