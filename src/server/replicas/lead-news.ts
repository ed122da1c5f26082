import { createHmac, timingSafeEqual } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { handedOnHeaders } from '../../http/index.ts';

/** Lets a former leader know who leads now: it may have lost its database, and nothing else. */
export interface LeadNews {
  /**
   * Sends the replica at an address the news that this one leads, until it accepts them, at most for two minutes. Never rejects.
   */
  tell(former: URL, signal: AbortSignal): Promise<void>;
  /** Returns the address of the replica that says that it leads; undefined for any other request. */
  read(request: IncomingMessage): URL | undefined;
}

const pauseMs = 1000;
const responseMs = 2000;
const patienceMs = 120_000;
// Clocks of replicas that lead differ from the database by less.
const longestAgeMs = 10 * 60_000;
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

  const tellOnce = (former: URL): Promise<boolean> => {
    const time = now();
    const news = `${own.href} ${time} ${sign(former, own, time)}`;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const out = (former.protocol === 'http:' ? httpRequest : httpsRequest)(
      new URL('/healthz', former),
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
    async tell(former, signal) {
      if (former.href === own.href) return;
      const deadline = performance.now() + patienceMs;
      while (!signal.aborted && performance.now() < deadline) {
        if (await tellOnce(former)) return;
        await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      }
    },
    read({ headers }) {
      const news = headers[handedOnHeaders.leads];
      if (typeof news !== 'string' || news.length > longest) return undefined;
      const [address = '', time = '', mac = ''] = news.split(' ');
      if (!URL.canParse(address) || !(Math.abs(now() - Number(time)) < longestAgeMs))
        return undefined;
      const leader = new URL(address);
      const [one, other] = [Buffer.from(mac), Buffer.from(sign(own, leader, Number(time)))];
      return one.length === other.length && timingSafeEqual(one, other) ? leader : undefined;
    },
  };
}

/** The status with which a replica accepts the news. */
export const accepted = 204;
/** The status of a replica that leads as far as it knows. It is asked again. */
export const refused = 409;
