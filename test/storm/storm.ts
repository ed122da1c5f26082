import type { Random } from '../fuzz/random.ts';
import type { History } from './history.ts';
import type { Kept } from './kept.ts';
import type { StormHttp } from './storm-http.ts';
import type { Tally } from './tally.ts';

/** What the clients of a storm share. */
export interface Storm {
  readonly seed: number;
  readonly http: StormHttp;
  readonly tally: Tally;
  /** Tags and container tokens. */
  readonly history: History;
  /** What must hold from now on. */
  readonly kept: Kept;
  /** The registry with the images of the corpus. */
  readonly registry: string;
}

/** A client, which does one piece of work after the other. */
export interface Client {
  readonly number: number;
  readonly random: Random;
}

/** One piece of work. Failures are refusals, except for `Wrong`. */
export type Work = (storm: Storm, client: Client) => Promise<void>;
