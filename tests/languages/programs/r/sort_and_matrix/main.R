# A million numbers sorted, a matrix product, bits, vectorised primes, classes of three kinds.
state <- numeric(1)
numbers <- local({ n <- 1e6; (seq_len(n) * 7919) %% 1000003 })
sorted <- sort(numbers)
cat(all(diff(sorted) >= 0), format(sum(numbers), big.mark = ","), sorted[c(1, 5e5, 1e6)], "\n")
a <- outer(1:150, 1:150, function(i, j) i - j)
b <- outer(1:150, 1:150, function(i, j) (i * j) %% 7)
c <- a %*% b
cat(dim(c), c[1, 1], c[150, 150], sum(c), "\n")
sieve <- function(n) {
  is <- c(FALSE, rep(TRUE, n - 1))
  for (i in 2:floor(sqrt(n))) if (is[i]) is[seq(i * i, n, by = i)] <- FALSE
  which(is)
}
primes <- sieve(1e6)
cat(length(primes), tail(primes, 1), "\n")
print.money <- function(x, ...) cat(sprintf("%.2f EUR\n", unclass(x)))
Ops.money <- function(e1, e2) { v <- get(.Generic)(unclass(e1), unclass(e2)); if (.Generic %in% c("+", "-", "*")) structure(v, class = "money") else v }
price <- structure(10.5, class = "money")
print(price + price)
cat(price > structure(3, class = "money"), "\n")
setClass("Shape", representation("VIRTUAL"))
setClass("Circle", contains = "Shape", representation(r = "numeric"))
setClass("Square", contains = "Shape", representation(side = "numeric"))
setGeneric("area", function(shape) standardGeneric("area"))
setMethod("area", "Circle", function(shape) pi * shape@r^2)
setMethod("area", "Square", function(shape) shape@side^2)
print(round(sapply(list(new("Circle", r = 2), new("Square", side = 3)), area), 3))
Stack <- setRefClass("Stack", fields = list(items = "list"), methods = list(
  push = function(x) { items[[length(items) + 1]] <<- x }, pop = function() { x <- items[[length(items)]]; items[[length(items)]] <<- NULL; x }))
s <- Stack$new()
for (i in 1:3) s$push(i^2)
cat(s$pop(), s$pop(), length(s$items), bitwXor(12L, 10L), strtoi("ff", 16L), rev(as.integer(intToBits(6))[1:4]), "\n")
