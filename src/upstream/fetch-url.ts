import { Fault } from '../foundation/fault.ts';
import { redirected, redirectedRequest } from './transport/redirect.ts';
import type { HttpRequest, Transport } from './transport/transport.ts';
import type { UpstreamResponse } from './transport/upstream-response.ts';

const maxRedirects = 5;

/** Fetches the body of an http(s) URL outside registries and follows redirects. Throws {@link Fault}. */
export async function fetchUrl(
  transport: Transport,
  url: URL,
  signal?: AbortSignal,
): Promise<UpstreamResponse> {
  let request: HttpRequest = { url, method: 'GET', headers: {}, signal };
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const response = await transport.sendBlob(request).catch(error => {
      throw request.url === url ? error : redirected(error, url, request.url);
    });
    const next = redirectedRequest(request, response);
    if (!next) {
      if (response.status === 200) return response;
      response.body.destroy();
      const remedy =
        response.status >= 500 ? 'try again later' : 'check that the address is right and public';
      throw new Fault('bad-request', `${url.host} answered ${response.status}: ${remedy}`, {
        phase: 'upstream',
      });
    }
    response.body.destroy();
    request = next;
  }
  throw new Fault(
    'bad-request',
    `${url.host} redirects more than ${maxRedirects} times: use the final address`,
    {
      phase: 'upstream',
    },
  );
}
