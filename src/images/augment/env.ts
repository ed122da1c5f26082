/**
 * Returns the name in `NAME=value`; the whole text without `=`. A `=` at the beginning belongs to the
 * name, as in the `=C:=C:\dir` that Windows keeps: such entries must not all be one variable.
 */
export function envName(entry: string): string {
  const equals = entry.indexOf('=', 1);
  return equals < 0 ? entry : entry.slice(0, equals);
}

/**
 * Returns the base environment with the given entries merged by name: an existing variable is replaced in its
 * place, a new one is appended. Of several entries with one name the last wins; a base that names a
 * variable twice keeps one, as the runtimes do.
 */
export function mergeEnv(base: readonly string[], given: readonly string[]): string[] {
  const merged = new Map<string, string>();
  for (const entry of [...base, ...given]) merged.set(envName(entry), entry);
  return [...merged.values()];
}
