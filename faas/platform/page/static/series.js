// Samples of a function, as the platform took them: each holds until the next. Pure: no page in here.

export const AT = 0,
  STARTING = 1,
  READY = 2,
  DRAINING = 3,
  WAITING = 4,
  CURRENT = 5,
  REQUESTS = 6,
  FAILED = 7;

// Add samples to those that are known, by their second, and leave out what held before `since` only.
export const merge = (known, more, since) => {
  const first = more.length ? more[0][AT] : Infinity;
  const merged = [...known.filter(sample => sample[AT] < first), ...more];
  let from = 0;
  while (from + 1 < merged.length && merged[from + 1][AT] <= since) from += 1;
  return merged.slice(from);
};

// The value of a column at each second from `since` to `until`; `before` where no sample holds yet.
export const gauge = (samples, column, since, until, before = 0) => {
  const values = [];
  let at = 0,
    held = before;
  for (let second = since; second <= until; second += 1) {
    while (at < samples.length && samples[at][AT] <= second) held = samples[at++][column];
    values.push(held);
  }
  return values;
};

// How much a count rose in each `width` seconds, a second; it began where the first sample found it.
export const rate = (samples, column, since, until, width) => {
  const totals = gauge(samples, column, since - 1, until, samples[0]?.[column] ?? 0),
    values = [];
  for (let i = 0; i + width < totals.length; i += width) {
    values.push(Math.max(0, totals[i + width] - totals[i]) / width);
  }
  return values;
};

// The value that a share `q` of what a histogram counted stays under, by its buckets' upper bounds, between linearly.
export const quantile = (buckets, q) => {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  let below = 0,
    lower = 0;
  for (const [bound, count] of buckets) {
    if (count && below + count >= q * total) {
      return Number.isFinite(bound) ? lower + ((bound - lower) * (q * total - below)) / count : lower;
    }
    below += count;
    if (Number.isFinite(bound)) lower = bound;
  }
  return lower;
};

export const buckets = counts =>
  Object.entries(counts ?? {})
    .map(([bound, count]) => [bound === "+Inf" ? Infinity : Number(bound), count])
    .sort((one, other) => one[0] - other[0]);
