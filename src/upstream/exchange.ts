import { Fault } from '../foundation/fault.ts';
import type { RemoteHealth } from '../foundation/telemetry/index.ts';
import type { Access } from './access.ts';
import type { Authorizer } from './auth/authorizer.ts';
import { type Challenge, parseChallenges } from './auth/bearer.ts';
import type { CredentialSource } from './credentials.ts';
import { endpointOf, type Registries, settingsOf } from './registry-settings.ts';
import { faultOfError, faultOfStatus } from './transport/failure.ts';
import { redirected, redirectedRequest } from './transport/redirect.ts';
import { type RetryPolicy, withRetries } from './transport/retry.ts';
import type { HttpRequest, Transport } from './transport/transport.ts';
import type { UpstreamRequest } from './transport/upstream-request.ts';
import type { UpstreamResponse } from './transport/upstream-response.ts';

/**
 * Sends a request and returns a 2xx response, or a redirect to pass on. Throws {@link Fault} for every other result.
 */
export type Exchange = (access: Access, request: UpstreamRequest) => Promise<UpstreamResponse>;

export interface ExchangeDeps {
  readonly transport: Transport;
  readonly authorizer: Authorizer;
  readonly registries: Registries;
  readonly mirrorCredentials: CredentialSource;
  readonly retry: RetryPolicy;
  /** Called when a mirror fails to answer, before the next one is tried. */
  readonly onMirrorFailure: (mirror: string, registry: string, error: Fault) => void;
  readonly health: RemoteHealth;
}

const maxRedirects = 5;
// A registry that is not listed itself reaches no closed address of a listed one.
const bothHosts = 'both hosts';
// The meaning of these is clear without the registry's message, and a registry that limits requests is spared another.
const selfEvident = new Set([404, 410, 429]);

/** Combines what every request needs: mirrors, authentication, redirects, retries, faults. */
export function createExchange(deps: ExchangeDeps): Exchange {
  const { transport, authorizer, registries, retry, health } = deps;

  const send = async (
    httpRequest: HttpRequest,
    request: UpstreamRequest,
  ): Promise<UpstreamResponse> =>
    httpRequest.upload || (request.isBlob && httpRequest.method === 'GET')
      ? transport.sendBlob(httpRequest)
      : transport.send(httpRequest);

  const follow = async (
    first: HttpRequest,
    request: UpstreamRequest,
  ): Promise<UpstreamResponse> => {
    let httpRequest = first;
    for (let redirects = 0; ; redirects += 1) {
      const response = await send(httpRequest, request).catch(error => {
        throw httpRequest === first
          ? error
          : redirected(error, first.url, httpRequest.url, bothHosts);
      });
      // The request body is used up, so its sender handles the response.
      const next = isSent(request) ? undefined : redirectedRequest(httpRequest, response);
      if (!next) return response;
      response.body.destroy();
      const leaves = next.url.origin !== first.url.origin;
      if (request.redirects === 'handOn' && leaves) {
        // A client in the same network could reach an address that callers may not send this server to.
        await transport.checkReach(next).catch(error => {
          throw redirected(error, first.url, next.url, bothHosts);
        });
        return { ...response, redirect: next.url };
      }
      if (redirects >= maxRedirects) {
        throw new Fault(
          'upstream-unusable',
          `${first.url.host} redirects in circles, or more than ${maxRedirects} times, for ${request.what}: tell its operator`,
          { phase: 'upstream' },
        );
      }
      httpRequest = next;
    }
  };

  const ask = async (access: Access, request: UpstreamRequest): Promise<UpstreamResponse> => {
    const { signal, path, headers, method, headersMs } = request;
    const endpoint = endpointOf(registries, access.registry);
    const url =
      typeof path === 'string' ? new URL(`/v2/${access.repository}/${path}`, endpoint) : path;
    // Elsewhere the address itself grants access.
    const isOwn = url.origin === endpoint.origin;
    const sendWith = async (authorization: string | undefined) =>
      follow(
        {
          url,
          // A registry that is not listed could name a private path of a listed one, as the place of an upload.
          from: isOwn ? undefined : endpoint,
          method,
          headers: authorization && isOwn ? { ...headers, authorization } : headers,
          body: request.body,
          upload: await request.upload?.(),
          headersMs,
          signal,
        },
        request,
      );
    const policy = request.isOnce ? { ...retry, attempts: 1 } : retry;
    return withRetries(policy, signal, async () => {
      const authorization = await authorizer.known(access, signal);
      let response = await sendWith(authorization);
      if (response.status !== 401) return response;
      let challenges = challengesOf(response);
      if (authorization && !challenges.some(({ scheme }) => scheme === 'bearer')) {
        // Harbor offers a token service only to a request without a login.
        response.body.destroy();
        authorizer.forget(access, authorization);
        response = await sendWith(undefined);
        if (response.status !== 401) return response;
        challenges = challengesOf(response);
      }
      const better = await authorizer
        .respond(access, challenges, authorization, signal)
        .catch(error => {
          response.body.destroy();
          throw error;
        });
      if (better !== undefined) {
        response.body.destroy();
        response = await sendWith(better);
      }
      // What is known of a registry never outlives its failure.
      if (response.status === 401) authorizer.forget(access, better);
      return response;
    });
  };

  const askOne = async (access: Access, request: UpstreamRequest): Promise<UpstreamResponse> => {
    const began = performance.now();
    const reportSuccess = () =>
      health.success('registry', access.registry, performance.now() - began);
    let response: UpstreamResponse;
    try {
      response = await ask(access, request);
    } catch (error) {
      const fault = faultOfError(error, access, request);
      // A client that went away says nothing about the registry.
      if (!request.signal?.aborted) health.failure('registry', access.registry, fault.message);
      throw fault;
    }
    if (isWanted(response, request)) {
      reportSuccess();
      return response;
    }
    const fault = await faultOfStatus(await worded(response, access, request), access, request);
    // A registry that refuses a request works.
    if (response.status < 500 && response.status !== 429) reportSuccess();
    else health.failure('registry', access.registry, fault.message);
    throw fault;
  };

  /** Returns the same failure with a body: a failed HEAD is repeated once as a GET, which says why. */
  const worded = async (
    response: UpstreamResponse,
    access: Access,
    request: UpstreamRequest,
  ): Promise<UpstreamResponse> => {
    if (request.method !== 'HEAD' || selfEvident.has(response.status)) return response;
    const again = { ...request, method: 'GET', isOnce: true } as const;
    const full = await ask(access, again).catch(() => undefined);
    if (full?.status === response.status) {
      response.body.destroy();
      return full;
    }
    full?.body.destroy();
    return response;
  };

  return async (access, request) => {
    const { mirrors } = settingsOf(registries, access.registry);
    const failures: string[] = [];
    for (const mirror of access.pushes ? [] : mirrors) {
      const credentials = await deps.mirrorCredentials(mirror);
      try {
        return await askOne({ ...access, registry: mirror, credentials }, request);
      } catch (error) {
        // Whatever is wrong with a mirror, the registry itself decides.
        if (request.signal?.aborted || !(error instanceof Fault)) throw error;
        deps.onMirrorFailure(mirror, access.registry, error);
        failures.push(`mirror ${mirror}: ${error.message}`);
      }
    }
    return askOne(access, request).catch(error => {
      if (failures.length === 0 || !(error instanceof Fault)) throw error;
      throw error.withMessage(`${error.message} (asked before: ${failures.join('; ')})`);
    });
  };
}

/** Returns true for a request whose bytes cannot be sent to another address. */
function isSent({ body, upload }: UpstreamRequest): boolean {
  return body !== undefined || upload !== undefined;
}

function challengesOf({ headers }: UpstreamResponse): readonly Challenge[] {
  return parseChallenges(headers.get('www-authenticate') ?? '');
}

/** Returns true for content, an expected status, or a redirect that its receiver may use. */
function isWanted({ status, redirect }: UpstreamResponse, request: UpstreamRequest): boolean {
  if (request.acceptedStatuses?.includes(status)) return true;
  // Any other redirect has not passed the checks of its address. The sender of a body handles the response itself.
  return status < 300 || (status < 400 && (redirect !== undefined || isSent(request)));
}
