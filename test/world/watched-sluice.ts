import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type Sluice, type SluiceOptions, startSluice } from './sluice.ts';
import { makeTempDir } from './temp-dir.ts';
import type { Turns } from './turn-probe.ts';

export interface WatchedSluice extends AsyncDisposable {
  readonly sluice: Sluice;
  /** Returns the measurements since the last call. */
  turns(): Promise<Turns>;
}

/** A server that records how long its event loop is blocked, see `turn-probe.ts`. */
export async function startWatchedSluice(options: SluiceOptions = {}): Promise<WatchedSluice> {
  const directory = await makeTempDir('probe');
  const socket = directory.join('turns');
  const probe = new URL('turn-probe.ts', import.meta.url).href;
  const sluice = await startSluice({
    ...options,
    env: { NODE_OPTIONS: `--import=${probe}`, TURN_PROBE: socket, ...options.env },
  });
  const turns = async () => JSON.parse(await text(connect(socket))) as Turns;
  await turns();
  return {
    sluice,
    turns,
    async [Symbol.asyncDispose]() {
      await sluice.stop();
      await directory.remove();
    },
  };
}
