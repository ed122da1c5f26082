import { createHmac, timingSafeEqual } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { handedOnHeaders } from '../../http/index.ts';

/** Lets other replicas know who leads now: they may have lost their database, and nothing else. */
export interface LeadNews {
  /**
   * Sends the replica at an address the news that this one leads since a time, until it accepts them, at most for two
   * minutes. Never rejects.
   */
  tell(other: URL, time: number, signal: AbortSignal): Promise<void>;
  /** Returns what the request of a replica says that leads; undefined for any other request. */
  read(request: IncomingMessage): HeardLead | undefined;
}

/** A lead that another replica reports. */
export interface HeardLead {
  readonly leader: URL;
  /** When it began, by the clock of the database (ms since the epoch): a later lead counts. */
  readonly time: number;
}

const pauseMs = 1000;
const responseMs = 2000;
const patienceMs = 120_000;
// Clocks of replicas that lead differ from the database by 10 minutes at most, and the news are sent for two.
const longestAgeMs = 15 * 60_000;
const longest = 4096;

/**
 * The news are signed, and do not contain the proof with which replicas hand requests on: somebody else may have the address
 * of a replica that is gone.
 *
 * @param key that all replicas of the site share
 * @param own where other replicas reach this one
 */
export function createLeadNews(key: Buffer, own: URL, now = Date.now): LeadNews {
  const sign = (to: URL, leader: URL, time: number): string =>
    createHmac('sha256', key).update(`${to.href}\n${leader.href}\n${time}`).digest('base64url');

  const tellOnce = (other: URL, time: number): Promise<boolean> => {
    const news = `${own.href} ${time} ${sign(other, own, time)}`;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const out = (other.protocol === 'http:' ? httpRequest : httpsRequest)(
      new URL('/healthz', other),
      {
        method: 'POST',
        agent: false,
        headers: { [handedOnHeaders.leads]: news, 'content-length': '0' },
        signal: AbortSignal.timeout(responseMs),
      },
      response => {
        response.on('error', () => {}).resume();
        resolve(response.statusCode === accepted);
      },
    );
    out.once('error', () => resolve(false));
    out.once('close', () => resolve(false));
    out.end();
    return promise;
  };

  return {
    async tell(other, time, signal) {
      if (other.href === own.href) return;
      const deadline = performance.now() + patienceMs;
      while (!signal.aborted && performance.now() < deadline) {
        if (await tellOnce(other, time)) return;
        await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      }
    },
    read({ headers }) {
      const news = headers[handedOnHeaders.leads];
      if (typeof news !== 'string' || news.length > longest) return undefined;
      const [address = '', time = '', mac = ''] = news.split(' ');
      if (!URL.canParse(address) || !(Math.abs(now() - Number(time)) < longestAgeMs))
        return undefined;
      const heard = { leader: new URL(address), time: Number(time) };
      const expected = Buffer.from(sign(own, heard.leader, heard.time));
      const given = Buffer.from(mac);
      return given.length === expected.length && timingSafeEqual(given, expected)
        ? heard
        : undefined;
    },
  };
}

/** The status with which a replica accepts the news. */
export const accepted = 204;
/** The status of a replica that leads as far as it knows. It is asked again. */
export const refused = 409;
