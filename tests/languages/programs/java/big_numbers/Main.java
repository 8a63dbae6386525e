import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;

/** Fibonacci by doubling, RSA with small keys, and Euler's number to many places. */
public class Main {
    static BigInteger[] fibonacci(int n) {
        if (n == 0) return new BigInteger[] {BigInteger.ZERO, BigInteger.ONE};
        BigInteger[] half = fibonacci(n / 2);
        BigInteger even = half[0].multiply(half[1].shiftLeft(1).subtract(half[0]));
        BigInteger odd = half[0].pow(2).add(half[1].pow(2));
        return n % 2 == 0 ? new BigInteger[] {even, odd} : new BigInteger[] {odd, even.add(odd)};
    }

    public static void main(String[] args) {
        BigInteger f = fibonacci(Integer.parseInt(args[0]))[0];
        System.out.println(f.toString().length() + " digits, last " + f.mod(BigInteger.TEN.pow(20)));

        BigInteger p = BigInteger.TWO.pow(127).subtract(BigInteger.ONE), q = BigInteger.TWO.pow(89).subtract(BigInteger.ONE);
        BigInteger n = p.multiply(q), phi = p.subtract(BigInteger.ONE).multiply(q.subtract(BigInteger.ONE));
        BigInteger e = BigInteger.valueOf(65537), d = e.modInverse(phi);
        BigInteger message = new BigInteger("sandbox".getBytes());
        BigInteger secret = message.modPow(e, n);
        System.out.println(secret.toString(36));
        System.out.println(new String(secret.modPow(d, n).toByteArray()) + " " + p.isProbablePrime(30));

        BigDecimal sum = BigDecimal.ONE, term = BigDecimal.ONE;
        for (int i = 1; i < 60; i++) {
            term = term.divide(BigDecimal.valueOf(i), new MathContext(80));
            sum = sum.add(term);
        }
        System.out.println(sum.setScale(60, RoundingMode.DOWN));
    }
}
