// Enough heat for the compilers of the JVM, then deoptimisation, garbage and threads.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;

public class Jit {
    interface Shape { double area(); }
    record Square(double side) implements Shape { public double area() { return side * side; } }
    record Circle(double radius) implements Shape { public double area() { return 3 * radius * radius; } }

    static long collatz(int most) {
        long steps = 0;
        for (int i = 1; i < most; i++)
            for (long n = i; n != 1; steps++)
                n = n % 2 == 0 ? n / 2 : 3 * n + 1;
        return steps;
    }

    static double areas(int rounds) {
        double sum = 0;
        for (int i = 0; i < rounds; i++) {
            Shape shape = i < rounds / 2 || i % 3 == 0 ? new Square(i % 7) : new Circle(i % 5);
            sum += shape.area();
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println(collatz(60000));
        System.out.println(areas(400000));
        HashMap<String, Integer> counts = new HashMap<>();
        for (int i = 0; i < 100000; i++)
            counts.merge("key" + i % 1013, i, Integer::sum);
        System.out.println(counts.size() + " " + counts.get("key7"));
        List<Thread> threads = new ArrayList<>();
        long[] sums = new long[4];
        for (int t = 0; t < sums.length; t++) {
            int own = t;
            Thread thread = new Thread(() -> { sums[own] = collatz(5000 + own); });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads)
            thread.join();
        System.out.println(sums[0] + " " + sums[3]);
        try {
            Object nothing = null;
            System.out.println(nothing.hashCode());
        } catch (NullPointerException caught) {
            System.out.println("caught a fault");
        }
    }
}
