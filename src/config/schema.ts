import { z } from 'zod';
import { parseAddress } from '../buildkit/address.ts';
import { parseReference } from '../oci/reference.ts';
import { isAllowable } from '../platform/endpoint.ts';
import { duration, limit, list, rate, size, splitList } from './units.ts';

const address = z
  .string()
  .regex(/^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'expected address:port')
  .refine(text => URL.canParse(`http://${text}`), 'expected address:port');

const flag = z.preprocess(
  value => (value === 'true' ? true : value === 'false' ? false : value),
  z.boolean('expected true or false'),
);

const count = z.coerce
  .number('expected a whole number')
  .int('expected a whole number')
  .nonnegative('expected a whole number');

const password = z.string().min(1, 'expected a password');

const account = z.union(
  [
    password.transform(word => ({ password: word, repositories: undefined })),
    z.strictObject({
      password,
      repositories: z.record(z.string().min(1), z.enum(['pull', 'push', 'administer'])),
    }),
  ],
  'expected a password, or {password, repositories} with the roles pull, push or administer',
);

/** `name:password,...` in the environment, a map in the file. */
const accounts = z.preprocess(
  value =>
    typeof value === 'string'
      ? Object.fromEntries(
          splitList(value).map(entry => {
            const colon = entry.indexOf(':');
            return [entry.slice(0, Math.max(colon, 0)), entry.slice(colon + 1)];
          }),
        )
      : value,
  z.record(
    z
      .string()
      .min(1, 'expected name:password')
      .regex(/^[^:]+$/, 'a name has no colon')
      .refine(name => name !== 'token', 'this name is for bearer tokens'),
    account,
    'expected a map of names to passwords',
  ),
);

const repository = z.string().refine(text => {
  try {
    // No tag and no digest: behind the one that is put here they would be no reference.
    parseReference(`${text}:tag`);
    return text.includes('/');
  } catch {
    return false;
  }
}, 'expected registry/path, without a tag');

const registryHost = z
  .string()
  .refine(
    text => /^[A-Za-z0-9.:[\]-]+$/.test(text) && URL.canParse(`https://${text}`),
    'expected the host of a registry, such as registry.example.com:5000',
  );

const builder = z.string().superRefine((text, context) => {
  if (text === 'off') return;
  try {
    parseAddress(text);
  } catch (error) {
    context.addIssue((error as Error).message);
  }
});

const registry = z.strictObject({
  username: z.string().optional().describe('User name for this registry'),
  password: z.string().optional().describe('Its password or token'),
  plainHttp: flag.default(false).describe('Speak http instead of https'),
  ca: z
    .string()
    .optional()
    .describe('PEM file of a certificate authority to trust besides the usual ones'),
  mirrors: list
    .default([])
    .describe('Hosts to ask first, in order; each may be listed here with settings of its own'),
  allowPrivateAddress: flag
    .default(true)
    .describe('The registry may be at a loopback, private or link-local address'),
  blobs: z
    .enum(['redirect', 'relay', 'cache'])
    .default('redirect')
    .describe(
      'How blobs reach the client: by the address the registry redirects to, through Sluice, or through a copy kept here',
    ),
  tokenHosts: list
    .default([])
    .describe("Hosts outside the registry's own domain that may issue its bearer tokens"),
});

const limits = z.strictObject({
  pulls: z
    .strictObject({
      anonymous: rate.prefault('250/hour').describe('Pulls of a client without an access token'),
      authenticated: rate
        .prefault('1000/minute')
        .describe('Pulls of a client whose request came with an access token'),
    })
    .prefault({}),
  requests: z
    .strictObject({
      anonymous: rate.prefault('off').describe('Container requests without an access token'),
      authenticated: rate.prefault('off').describe('Container requests with an access token'),
    })
    .prefault({}),
  builds: z
    .strictObject({
      anonymous: rate.prefault('25/day').describe('Builds begun without an access token'),
      authenticated: rate.prefault('100/hour').describe('Builds begun with an access token'),
    })
    .prefault({}),
  logins: rate
    .prefault('30/minute')
    .describe(
      'Failed logins from one client address, after which it waits: names and passwords of accounts, access tokens, passwords that `validate-creds` is to try',
    ),
  bodyBytes: size.prefault('16 MiB').describe('Largest body of a request'),
});

const layers = z.strictObject({
  maxCount: count.default(20).describe('Injected layers in one container request'),
  maxInlineBytes: size.prefault('10 MiB').describe('Largest layer inside a request (`data:`)'),
  maxUrlBytes: size.prefault('1 GiB').describe('Largest layer behind a URL'),
  maxTarBytes: size.prefault('8 GiB').describe('Largest tar file that a layer may unpack to'),
  privateHosts: list
    .default([])
    .describe('Hosts of layer URLs that may be at a loopback, private or link-local address'),
  mounted: list
    .default(['https://fusionfs.seqera.io/'])
    .describe(
      'Beginnings of layer URLs that mark a mounted file system: its pulls are counted apart',
    ),
});

const hosted = z.strictObject({
  anonymous: list
    .default(['public/*'])
    .describe('Hosted repositories that anybody may pull; a star stands for any characters'),
  maxBlobBytes: limit.prefault('off').describe('Largest blob that can be pushed'),
  maxRepositoryBytes: limit.prefault('off').describe('Most that one hosted repository can hold'),
  maxTotalBytes: limit.prefault('off').describe('Most that all hosted repositories can hold'),
  uploadLife: duration
    .prefault('1h')
    .describe('How long an upload that broke off can be gone on with'),
});

const sweep = z.strictObject({
  interval: duration.prefault('6h').describe('How often content that nothing refers to is removed'),
  grace: duration
    .prefault('24h')
    .describe(
      'How long content is kept at least after it was used last, so that pushes can finish',
    ),
});

const builds = z.strictObject({
  concurrent: count.min(1).default(2).describe('Builds that run at once, on all builders together'),
  timeLimit: duration.prefault('15m').describe('How long a build may take once it runs'),
  trustedTimeLimit: duration
    .prefault('60m')
    .describe('How long a build may take that somebody known asks for'),
  pullWait: duration
    .prefault('25s')
    .describe(
      'How long a pull waits for a build before it is sent around once more, nine times at most',
    ),
  retryAfter: duration
    .prefault('50s')
    .describe('How long a build that failed is answered with its failure before it is tried again'),
  keep: duration
    .prefault('30d')
    .describe(
      'How long a build that is over is remembered, with its log; longer while a token needs it',
    ),
  trustCaches: flag
    .default(false)
    .describe(
      "Take layers from the `cacheRepository` that a request names. Who can write there then decides what is in everybody's builds: only where all who build trust each other",
    ),
});

const sif = z.strictObject({
  mksquashfs: z
    .string()
    .min(1)
    .default('mksquashfs')
    .describe('Command that makes file systems, of the Debian package squashfs-tools'),
  maxEntries: count
    .min(1)
    .default(5_000_000)
    .describe('Most files, directories and links that an image to be converted may have'),
  maxUnpackedBytes: size.prefault('100 GiB').describe('Most that its layers may unpack to'),
  maxScratchBytes: size
    .prefault('100 GiB')
    .describe('Most disk space that one conversion may take'),
});

const upstream = z.strictObject({
  connectTimeout: duration.prefault('5s').describe('Until a registry is connected, TLS included'),
  headersTimeout: duration.prefault('15s').describe('Until the first byte of its answer'),
  idleTimeout: duration.prefault('30s').describe('Between two bytes of its answer'),
  attempts: count.default(3).describe('How often a question is asked before it has failed'),
});

const platform = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .refine(isAllowable, 'expected https://host[/path]')
    .optional()
    .describe(
      'Address of the workflow platform for requests that name none, that of its API. Default: the built-in one, `<url>/platform`',
    ),
  allow: list
    .pipe(z.array(z.string().refine(isAllowable, 'expected https://host[/path], or a host')))
    .default([])
    .describe(
      'Other platforms that a request may name: addresses of their APIs, or hosts, which are asked over https. No other platform is ever called',
    ),
  pairingToken: z
    .string()
    .min(16, 'expected at least 16 characters')
    .optional()
    .describe(
      'What a platform shows to pair with this server over a WebSocket, so that it hands out its secrets encrypted and can be behind a firewall. Without it no platform can pair',
    ),
  assumeRoles: flag
    .default(false)
    .describe(
      "Take the AWS roles that users' credentials name, with this server's own AWS identity where the credentials bring no keys",
    ),
  callsPerSecond: count
    .min(1)
    .default(20)
    .describe('Calls to a platform with one token in a second; what is more waits its turn'),
  callsPerHour: count
    .min(1)
    .default(72_000)
    .describe('Calls to a platform with one token in an hour; what is more waits its turn'),
  timeout: duration.prefault('10s').describe("Until the first byte of a platform's answer"),
});

/** Every setting there is, with its default. The one description: it validates, types and documents. */
export const configSchema = z.strictObject({
  listen: address.default('127.0.0.1:9090').describe('Address and port to listen on'),
  url: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .optional()
    .describe(
      'Public base URL; its authority is the host of every served image name. Default: `http://<listen>`',
    ),
  data: z.string().min(1).default('./data').describe('Directory of all state'),
  prefix: z
    .string()
    .regex(/^[a-z0-9]+(?:[._-][a-z0-9]+)*$/, 'expected one path segment of an image name')
    .default('ct')
    .describe('First path segment of served names'),
  accounts: accounts
    .prefault({})
    .describe(
      'Accounts: `name:password[,name:password]` administer everything; in the file also `name: {password, repositories: {"team/*": push}}` with the roles pull, push or administer for hosted repositories only. Without any, what needs an account answers 401',
    ),
  tokenLife: duration.prefault('36h').describe('How long a container token can be used'),
  trustedProxies: count
    .default(0)
    .describe('Proxies of your own in front, whose `X-Forwarded-For` tells the client address'),
  logLevel: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Least level of log lines; each request is one line of level info'),
  drainTime: duration
    .prefault('25s')
    .describe('How long a stopping server lets transfers under way finish'),
  dockerConfig: z
    .string()
    .optional()
    .describe(
      'Docker `config.json` to take registry credentials from; its text may also be in the environment variable `DOCKER_AUTH_CONFIG`',
    ),
  cacheBytes: size
    .prefault('20 GiB')
    .describe('Disk space for copies of blobs (`blobs: cache`); the least recently used go first'),
  limits: limits.prefault({}),
  layers: layers.prefault({}),
  hosted: hosted.prefault({}),
  sweep: sweep.prefault({}),
  buildkit: list
    .pipe(z.array(builder))
    .default([])
    .describe(
      'Addresses of BuildKit: `unix:///path`, `tcp://host:port`, `docker+unix:///path` for the builder in a Docker engine; `off` for none. Default: found by itself',
    ),
  buildRepository: repository
    .optional()
    .describe('Where builds are pushed, `registry/path`. Default: hosted, `<own host>/builds`'),
  cacheRepository: repository
    .optional()
    .describe('Where the layers of builds are cached. Default: the builder keeps them itself'),
  builds: builds.prefault({}),
  sif: sif.prefault({}),
  platform: platform.prefault({}),
  upstream: upstream.prefault({}),
  registries: z
    .record(registryHost, registry)
    .default({})
    .describe('Settings by registry host, exact and with its port; in the file only'),
});

export type Config = z.output<typeof configSchema>;
