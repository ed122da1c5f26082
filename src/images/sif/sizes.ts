/** Formats bytes for people: `12.3 MB`, `4.5 kB`. */
export function showBytes(bytes: number): string {
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Formats the time since a moment (of `performance.now`) for people: `4.5 s`. */
export function showSince(moment: number): string {
  return `${((performance.now() - moment) / 1000).toFixed(1)} s`;
}
