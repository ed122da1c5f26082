import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { handedOnHeaders, readBody } from '../../http/index.ts';
import { mostReportedBytes, readReportedPulls, type TakePulls } from '../../http/registry/index.ts';
import type { Changes } from './changes.ts';

interface PullReceiverDeps {
  /** Returns what counts pulls; undefined when this replica does not lead, or gives up the lead. */
  readonly taker: () => TakePulls | undefined;
  readonly changes: Pick<Changes, 'during'>;
  readonly log: Pick<Logger, 'warn'>;
}

/**
 * Returns what answers a message of another replica with the pulls that it answers. A message that has arrived is a change: a leader
 * that gives up the lead writes the pulls that it has acknowledged.
 */
export function createPullReceiver({
  taker,
  changes,
  log,
}: PullReceiverDeps): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const bytes = await readBody(request, mostReportedBytes);
    // The lead may have been given up while the body arrived, and the counts have been written.
    const take = taker();
    if (!take || !bytes) {
      const follows = take ? {} : { [handedOnHeaders.proof]: 'follows' };
      response.writeHead(take ? 413 : 503, { connection: 'close', ...follows }).end();
      return;
    }
    await changes.during(request, takeFrom(bytes, take, response));
  };
  const takeFrom = async (bytes: Buffer, take: TakePulls, response: ServerResponse) => {
    try {
      const replies = JSON.stringify(await take(readReportedPulls(bytes)));
      response.writeHead(200, { 'content-type': 'application/json' }).end(replies);
    } catch (err) {
      log.warn({ err }, 'another replica sent pulls that this version does not understand');
      response.writeHead(400, { connection: 'close' }).end();
    }
  };
  return receive;
}
