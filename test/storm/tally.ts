/** Counts what happened during a storm. */
export class Tally {
  readonly #counts = new Map<string, number>();
  readonly #refusals = new Map<string, number>();
  #acknowledged = 0;

  count(what: string, by = 1): void {
    this.#counts.set(what, this.countOf(what) + by);
  }

  countOf(what: string): number {
    return this.#counts.get(what) ?? 0;
  }

  /** Counts a change that a server has acknowledged, or the end of a build. */
  acknowledge(what: string): void {
    this.#acknowledged += 1;
    this.count(what);
  }

  get acknowledged(): number {
    return this.#acknowledged;
  }

  refuse(work: string, error: Error): void {
    const cause = error.cause instanceof Error ? ` (${error.cause.message})` : '';
    const reason = `${work}: ${error.message}${cause}`
      .replaceAll(/[0-9a-f]{12,}|\b[0-9a-f]{8}-[-0-9a-f]+|\d+-\d+/g, '*')
      .replaceAll(/127\.0\.0\.1:\d+|[vt]\d+/g, '*')
      .slice(0, 160);
    this.#refusals.set(reason, (this.#refusals.get(reason) ?? 0) + 1);
  }

  /** Reasons, and how often each was given. */
  get refusals(): ReadonlyMap<string, number> {
    return this.#refusals;
  }

  toString(): string {
    return [...this.#counts]
      .sort()
      .map(([what, count]) => `${what} ${count}`)
      .join(', ');
  }
}
