import type { Random } from '../fuzz/random.ts';
import { inLanes } from './lanes.ts';
import { pullKept } from './pull-image.ts';
import type { StormHttp } from './storm-http.ts';
import { Wrong } from './wrong.ts';

/** Something that a server has acknowledged, and that nobody changes any more. */
export type Promised =
  | { kind: 'image'; repository: string; tag: string; digest: string }
  | { kind: 'deleted'; path: string };

/** What must hold from now on. */
export class Kept {
  readonly #promises: Promised[] = [];
  /** When each of them was made, on the scale of `performance.now()`. */
  readonly #times = new Map<Promised, number>();

  add(promised: Promised): void {
    this.#promises.push(promised);
    this.#times.set(promised, performance.now());
  }

  get all(): readonly Promised[] {
    return this.#promises;
  }

  /** Returns the repositories with an image that was there at a time. */
  repositoriesOf(time: number): readonly string[] {
    const names = [...this.#times].flatMap(([one, at]) =>
      one.kind === 'image' && at < time ? [one.repository] : [],
    );
    return [...new Set(names)];
  }

  /** Checks one of them. Throws {@link Wrong} when it does not hold. */
  async checkOne(http: StormHttp, random: Random): Promise<void> {
    const one = random.pick(this.#promises);
    if (one) await check(http, one, random);
  }

  /** Returns why the promises do not hold. */
  async broken(http: StormHttp, random: Random): Promise<string[]> {
    const reasons: string[] = [];
    await inLanes(this.#promises, one =>
      check(http, one, random).catch(error => {
        reasons.push(`${JSON.stringify(one)}: ${(error as Error).message}`);
      }),
    );
    return reasons;
  }
}

/** Throws {@link Wrong} when a promise does not hold, and another error when nobody can say it now. */
async function check(http: StormHttp, promised: Promised, random: Random): Promise<void> {
  if (promised.kind === 'deleted') {
    const { status } = await http.expect([404, 200], promised.path);
    if (status === 200) throw new Wrong(`${promised.path} was deleted, and is there`);
    return;
  }
  const { repository, tag, digest } = promised;
  const found = await pullKept(http, repository, tag, random);
  if (found !== digest) throw new Wrong(`${repository}:${tag} is ${found}, not ${digest}`);
}
