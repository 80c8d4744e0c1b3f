// The program of BKE appendix B in current Stan syntax, with the same density. Two things differ:
//  - the prior is Gamma(1, 1), as the text of BKE section 5 says; the listing has gamma(.1, .1);
//  - L, R, J, K and muhat are local to the model block. The listing has them as transformed
//    parameters, so that Stan writes 4 n^2 numbers per draw; here it is not charged for that.
data {
  int<lower=1> n;
  vector[n] x;
  real<lower=0> sigma2;
}
transformed data {
  matrix[n, n] x_diff;
  matrix[n, n] x_dist2;
  vector[n] zeros = rep_vector(0, n);
  for (i in 1:n) {
    for (j in 1:n) {
      x_diff[i, j] = x[i] - x[j];
      x_dist2[i, j] = square(x[i] - x[j]);
    }
  }
}
parameters {
  real<lower=0> lengthscale;
}
model {
  matrix[n, n] R = exp(-x_dist2 / (4 * lengthscale ^ 2));
  matrix[n, n] K = exp(-x_dist2 / (2 * lengthscale ^ 2));
  matrix[n, n] L = cholesky_decompose(R + diag_matrix(rep_vector(sigma2, n)));
  matrix[n, n] J = -K .* x_diff / (lengthscale ^ 2 * n);
  vector[n] muhat;
  for (i in 1:n) {
    muhat[i] = mean(K[i]);
  }
  for (i in 1:n) { // Jacobian
    target += log(abs(sum(J[i])));
  }
  muhat ~ multi_normal_cholesky(zeros, L);
  lengthscale ~ gamma(1, 1);
}
