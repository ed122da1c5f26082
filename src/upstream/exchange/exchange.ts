import { Fault } from '../../foundation/fault.ts';
import type { RemoteHealth } from '../../foundation/telemetry/index.ts';
import type { Access } from '../access.ts';
import type { Authorizer } from '../auth/authorizer.ts';
import { type Challenge, parseChallenges } from '../auth/challenge.ts';
import type { CredentialSource } from '../auth/credentials.ts';
import { endpointOf, type Registries, settingsOf } from '../registry-settings.ts';
import { nextHop, redirected } from '../transport/redirect.ts';
import { type RetryPolicy, withRetries } from '../transport/retry.ts';
import type { Hop, Transport } from '../transport/transport.ts';
import type { Answer } from './answer.ts';
import { faultOfError, faultOfStatus } from './failure.ts';
import type { Question } from './question.ts';

/**
 * Sends a request and returns a 2xx response, or a redirect to pass on. Throws {@link Fault} for every other result.
 */
export type Exchange = (access: Access, question: Question) => Promise<Answer>;

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

  const send = async (hop: Hop, question: Question): Promise<Answer> =>
    question.isBlob && hop.method === 'GET' ? transport.sendBlob(hop) : transport.send(hop);

  const follow = async (first: Hop, question: Question): Promise<Answer> => {
    let hop = first;
    for (let redirects = 0; ; redirects += 1) {
      const answer = await send(hop, question).catch(error => {
        throw hop === first ? error : redirected(error, first.url, hop.url, bothHosts);
      });
      // The request body is used up, so its sender handles the response.
      const next = question.body ? undefined : nextHop(hop, answer);
      if (!next) return answer;
      answer.body.destroy();
      const leaves = next.url.origin !== first.url.origin;
      if (question.redirects === 'handOn' && leaves) {
        // A client in the same network could reach an address that callers may not send this server to.
        await transport.checkReach(next).catch(error => {
          throw redirected(error, first.url, next.url, bothHosts);
        });
        return { ...answer, redirect: next.url };
      }
      if (redirects >= maxRedirects) {
        throw new Fault(
          'upstream-unusable',
          `${first.url.host} redirects in circles, or more than ${maxRedirects} times, for ${question.what}: tell its operator`,
          { phase: 'upstream' },
        );
      }
      hop = next;
    }
  };

  const ask = async (access: Access, question: Question): Promise<Answer> => {
    const { signal, path, headers, method, headersMs } = question;
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
          body: await question.body?.(),
          headersMs,
          signal,
        },
        question,
      );
    const policy = question.isOnce ? { ...retry, attempts: 1 } : retry;
    return withRetries(policy, signal, async () => {
      const authorization = await authorizer.known(access, signal);
      let answer = await sendWith(authorization);
      if (answer.status !== 401) return answer;
      let challenges = challengesOf(answer);
      if (authorization && !challenges.some(({ scheme }) => scheme === 'bearer')) {
        // Harbor offers a token service only to a request without a login.
        answer.body.destroy();
        authorizer.forget(access, authorization);
        answer = await sendWith(undefined);
        if (answer.status !== 401) return answer;
        challenges = challengesOf(answer);
      }
      const better = await authorizer
        .answer(access, challenges, authorization, signal)
        .catch(error => {
          answer.body.destroy();
          throw error;
        });
      if (better !== undefined) {
        answer.body.destroy();
        answer = await sendWith(better);
      }
      // What is known of a registry never outlives its failure.
      if (answer.status === 401) authorizer.forget(access, better);
      return answer;
    });
  };

  const askOne = async (access: Access, question: Question): Promise<Answer> => {
    const began = performance.now();
    const answered = () => health.success('registry', access.registry, performance.now() - began);
    let answer: Answer;
    try {
      answer = await ask(access, question);
    } catch (error) {
      const fault = faultOfError(error, access, question);
      // A client that went away says nothing about the registry.
      if (!question.signal?.aborted) health.failure('registry', access.registry, fault.message);
      throw fault;
    }
    if (isWanted(answer, question)) {
      answered();
      return answer;
    }
    const fault = await faultOfStatus(await worded(answer, access, question), access, question);
    // A registry that refuses a request works.
    if (answer.status < 500 && answer.status !== 429) answered();
    else health.failure('registry', access.registry, fault.message);
    throw fault;
  };

  /** Returns the same failure with a body: a failed HEAD is repeated once as a GET, which says why. */
  const worded = async (answer: Answer, access: Access, question: Question): Promise<Answer> => {
    if (question.method !== 'HEAD' || selfEvident.has(answer.status)) return answer;
    const again = { ...question, method: 'GET', isOnce: true } as const;
    const full = await ask(access, again).catch(() => undefined);
    if (full?.status === answer.status) {
      answer.body.destroy();
      return full;
    }
    full?.body.destroy();
    return answer;
  };

  return async (access, question) => {
    const { mirrors } = settingsOf(registries, access.registry);
    const failures: string[] = [];
    for (const mirror of access.pushes ? [] : mirrors) {
      const credentials = await deps.mirrorCredentials(mirror);
      try {
        return await askOne({ ...access, registry: mirror, credentials }, question);
      } catch (error) {
        // Whatever is wrong with a mirror, the registry itself decides.
        if (question.signal?.aborted || !(error instanceof Fault)) throw error;
        deps.onMirrorFailure(mirror, access.registry, error);
        failures.push(`mirror ${mirror}: ${error.message}`);
      }
    }
    return askOne(access, question).catch(error => {
      if (failures.length === 0 || !(error instanceof Fault)) throw error;
      throw error.retold(`${error.message} (asked before: ${failures.join('; ')})`);
    });
  };
}

function challengesOf({ headers }: Answer): readonly Challenge[] {
  return parseChallenges(headers.get('www-authenticate') ?? '');
}

/** Returns true for content, an expected status, or a redirect that its receiver may use. */
function isWanted({ status, redirect }: Answer, { answers, body }: Question): boolean {
  if (answers?.includes(status)) return true;
  // Any other redirect has not passed the checks of its address. The sender of a body handles the response itself.
  return status < 300 || (status < 400 && (redirect !== undefined || body !== undefined));
}
