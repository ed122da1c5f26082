import { Fault } from '../foundation/fault.ts';
import type { Answer } from './exchange/answer.ts';
import { nextHop, redirected } from './transport/redirect.ts';
import type { Hop, Transport } from './transport/transport.ts';

const maxRedirects = 5;

/** Fetches the body of an http(s) URL outside registries and follows redirects. Throws {@link Fault}. */
export async function fetchUrl(
  transport: Transport,
  url: URL,
  signal?: AbortSignal,
): Promise<Answer> {
  let hop: Hop = { url, method: 'GET', headers: {}, signal };
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const answer = await transport.sendBlob(hop).catch(error => {
      throw hop.url === url ? error : redirected(error, url, hop.url);
    });
    const next = nextHop(hop, answer);
    if (!next) {
      if (answer.status === 200) return answer;
      answer.body.destroy();
      const remedy =
        answer.status >= 500 ? 'try again later' : 'check that the address is right and public';
      throw new Fault('bad-request', `${url.host} answered ${answer.status}: ${remedy}`, {
        phase: 'upstream',
      });
    }
    answer.body.destroy();
    hop = next;
  }
  throw new Fault(
    'bad-request',
    `${url.host} redirects more than ${maxRedirects} times: use the final address`,
    {
      phase: 'upstream',
    },
  );
}
