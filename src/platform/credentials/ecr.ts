import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ECRClientConfig } from '@aws-sdk/client-ecr';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Credentials } from '../../upstream/auth/index.ts';
import { readAll, type Transport } from '../../upstream/index.ts';
import type { EcrRegistry } from './ecr-registry.ts';
import type { AwsKeys } from './registry-login.ts';

/**
 * Exchanges the keys of an AWS account, or a role, for a registry's password, and keeps it until shortly before it
 * expires. Throws a {@link Fault}: 403 when AWS rejects the keys or the role.
 *
 * @param name name of the credentials, for messages
 */
export type EcrLogin = (registry: EcrRegistry, keys: AwsKeys, name: string) => Promise<Credentials>;

export interface EcrDeps {
  readonly transport: Pick<Transport, 'send'>;
  /** True when this server may assume roles with its own AWS identity where there are no keys. */
  readonly assumeRoles: boolean;
  /** Replaces AWS's own address. Default: the SDK's variables such as `AWS_ENDPOINT_URL` apply. */
  readonly endpoint?: string;
  /** ms on a scale that changes of the wall clock do not affect */
  readonly now?: () => number;
  /** ms since the epoch */
  readonly wall?: () => number;
}

interface Password {
  readonly credentials: Credentials;
  /** Expiry on the scale of `now`. */
  readonly until: number;
}

const maxPasswords = 1000;
const earlyMs = 5 * 60_000;
const shortestLifeMs = 60_000;
const usualLifeMs = 12 * 3_600_000;
const roleSeconds = 3600;
const attempts = 3;

export function createEcrLogin(deps: EcrDeps): EcrLogin {
  const { transport, assumeRoles, endpoint } = deps;
  const { now = () => performance.now(), wall = Date.now } = deps;
  const passwords = boundedCache<string, Password>(maxPasswords);
  const exchanges = new SingleFlight<Credentials>();

  const settings = (region: string) => ({
    region,
    requestHandler: awsRequests(transport),
    maxAttempts: attempts,
    ...(endpoint === undefined ? {} : { endpoint }),
  });

  const takeRole = async (region: string, keys: AwsKeys) => {
    const { AssumeRoleCommand, STSClient } = await import('@aws-sdk/client-sts');
    const own = staticKeys(keys);
    const sts = new STSClient({ ...settings(region), ...(own ? { credentials: own } : {}) });
    const { Credentials: taken } = await sts.send(
      new AssumeRoleCommand({
        RoleArn: keys.assumeRoleArn,
        RoleSessionName: 'sluice',
        DurationSeconds: roleSeconds,
        ...(keys.externalId === undefined ? {} : { ExternalId: keys.externalId }),
      }),
    );
    return {
      accessKeyId: taken?.AccessKeyId ?? '',
      secretAccessKey: taken?.SecretAccessKey ?? '',
      sessionToken: taken?.SessionToken ?? '',
    };
  };

  const ask = async ({ kind, region }: EcrRegistry, keys: AwsKeys) => {
    const credentials = keys.assumeRoleArn ? await takeRole(region, keys) : staticKeys(keys);
    const config = { ...settings(region), ...(credentials ? { credentials } : {}) };
    if (kind === 'public') {
      const sdk = await import('@aws-sdk/client-ecr-public');
      const client = new sdk.ECRPUBLICClient(config);
      return (await client.send(new sdk.GetAuthorizationTokenCommand({}))).authorizationData;
    }
    const sdk = await import('@aws-sdk/client-ecr');
    const client = new sdk.ECRClient(config);
    return (await client.send(new sdk.GetAuthorizationTokenCommand({}))).authorizationData?.[0];
  };

  const exchange = async (key: string, registry: EcrRegistry, keys: AwsKeys, name: string) => {
    const [asked, askedAt] = [now(), wall()];
    const data = await ask(registry, keys).catch(error => {
      throw faultOf(error, name);
    });
    // Contains `AWS:<password>` in base64, like a Basic header.
    const text = Buffer.from(data?.authorizationToken ?? '', 'base64').toString('utf8');
    const colon = text.indexOf(':');
    if (colon <= 0) {
      throw new Fault(
        'upstream',
        `AWS returned no password for the credentials '${name}': try again later`,
        {
          phase: 'credentials',
        },
      );
    }
    const credentials: Credentials = {
      kind: 'password',
      username: text.slice(0, colon),
      password: text.slice(colon + 1),
    };
    const statedMs = (data?.expiresAt?.getTime() ?? askedAt + usualLifeMs) - askedAt - earlyMs;
    // AWS issues no longer lifetimes: a local clock that is behind would make a lifetime look longer.
    const lifeMs = Math.min(Math.max(statedMs, shortestLifeMs), usualLifeMs);
    passwords.set(key, { credentials, until: asked + lifeMs });
    return credentials;
  };

  return async (registry, keys, name) => {
    if (!staticKeys(keys) && !assumeRoles) {
      throw new Fault(
        'denied',
        `The credentials '${name}' name an AWS role without keys, and this server does not assume roles with its own identity: use an access key, or ask the operator to set platform.assumeRoles`,
        { phase: 'credentials' },
      );
    }
    const key = keyOf(registry, keys);
    const known = passwords.get(key);
    if (known && now() < known.until) return known.credentials;
    return exchanges.run(() => exchange(key, registry, keys, name), { key });
  };
}

function staticKeys({ accessKey, secretKey }: AwsKeys) {
  return accessKey && secretKey
    ? { accessKeyId: accessKey, secretAccessKey: secretKey }
    : undefined;
}

function keyOf({ kind, region }: EcrRegistry, keys: AwsKeys): string {
  const { accessKey, secretKey, assumeRoleArn, externalId } = keys;
  const text = JSON.stringify([kind, region, accessKey, secretKey, assumeRoleArn, externalId]);
  return createHash('sha256').update(text).digest('base64url');
}

/** Leaves out AWS's own message: it contains key ids and account numbers. */
function faultOf(error: unknown, name: string): Fault {
  if (error instanceof Fault) return error;
  const { $metadata, name: kind } = error as {
    $metadata?: { httpStatusCode?: number };
    name?: string;
  };
  const status = $metadata?.httpStatusCode ?? 0;
  const options = { phase: 'credentials' as const, cause: withoutWords(error) };
  const isRefusal = status >= 400 && status < 500 && status !== 429 && !/Throttl/i.test(kind ?? '');
  if (isRefusal) {
    return new Fault(
      'denied',
      `AWS refused the credentials '${name}' (${kind ?? status}): check that they are valid and allow ecr:GetAuthorizationToken, and for a role its trust policy and external id`,
      options,
    );
  }
  return new Fault(
    'unavailable',
    `Cannot request a password from AWS with the credentials '${name}': try again later`,
    options,
  );
}

function withoutWords(error: unknown): Error {
  return new Error(error instanceof Error ? error.name : 'unknown');
}

/** The parts of the SDK's request that are used here. */
interface AwsRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | string[] | null>>;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

const largestResponse = 1024 * 1024;
const longestMs = 10_000;

/** Sends the requests of the AWS SDK through the server's own transport. */
function awsRequests(
  transport: Pick<Transport, 'send'>,
): NonNullable<ECRClientConfig['requestHandler']> {
  return {
    async handle(request: AwsRequest) {
      const { 'content-length': _counted, ...headers } = request.headers;
      const reply = await transport.send({
        url: urlOf(request),
        method: request.method === 'POST' ? 'POST' : 'GET',
        headers,
        ...(request.body === undefined ? {} : { body: request.body }),
        signal: AbortSignal.timeout(longestMs),
      });
      const body = Readable.from([
        await readAll(reply.body, largestResponse, 'The response of AWS'),
      ]);
      const response = {
        statusCode: reply.status,
        headers: Object.fromEntries(reply.headers),
        body,
      };
      return { response };
    },
    // The SDK changes its own handler through this method; this handler has nothing to change.
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
  };
}

function urlOf({ protocol, hostname, port, path, query }: AwsRequest): URL {
  const url = new URL(`${protocol}//${hostname}${port ? `:${port}` : ''}${path}`);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value ?? ''].flat()) url.searchParams.append(name, one);
  }
  return url;
}
