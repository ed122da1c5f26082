import { z } from 'zod';
import { parseAddress } from '../../buildkit/index.ts';
import { parseReference } from '../../oci/reference.ts';
import { access, audit } from './sections/access-schema.ts';
import { accountFiles, accounts } from './sections/accounts-schema.ts';
import { anonymous } from './sections/anonymous-schema.ts';
import { builds } from './sections/builds-schema.ts';
import { cors } from './sections/cors-schema.ts';
import { disk, sweep } from './sections/disk-schema.ts';
import { address, connections, tls } from './sections/listening-schema.ts';
import { platform } from './sections/platform-schema.ts';
import { sif } from './sections/sif-schema.ts';
import { upstream } from './sections/upstream-schema.ts';
import { duration, limit, list, positiveRate, rate, size } from './units.ts';
import { count, flag, registryHost } from './values.ts';

const repository = z.string().refine(text => {
  try {
    // The reference gets its tag here: one with a tag or digest already would be malformed.
    parseReference(`${text}:tag`);
    return text.includes('/');
  } catch {
    return false;
  }
}, 'expected registry/path, without a tag');

const builder = z.string().superRefine((text, context) => {
  if (text === 'off') return;
  try {
    parseAddress(text);
  } catch (error) {
    context.addIssue((error as Error).message);
  }
});

/** How the connection to one builder is secured. */
const builderTls = z.strictObject({
  ca: z.string().min(1).describe("PEM file of the authority of the builder's certificate"),
  certificate: z
    .string()
    .min(1)
    .optional()
    .describe('PEM file of the client certificate, for a builder that requires one'),
  key: z.string().min(1).optional().describe('PEM file of its private key'),
  serverName: z
    .string()
    .min(1)
    .optional()
    .describe("Name in the builder's certificate. Default: the host of the address"),
});

const registry = z.strictObject({
  username: z.string().optional().describe('User name for this registry'),
  password: z
    .string()
    .optional()
    .describe('Password or token for this registry')
    .meta({ secret: true }),
  anonymous: flag
    .default(false)
    .describe(
      'The credentials listed for this registry, here or in a Docker configuration, also serve callers without a login. A mirror with credentials needs it, because a mirror serves all callers',
    ),
  plainHttp: flag.default(false).describe('Speak http instead of https'),
  ca: z
    .string()
    .optional()
    .describe('PEM file of a certificate authority to trust in addition to the usual ones'),
  mirrors: list
    .default([])
    .describe('Hosts to ask first, in order; each may be listed here with its own settings'),
  allowPrivateAddress: flag
    .default(true)
    .describe('The registry may be at a loopback, private or link-local address'),
  blobs: z
    .enum(['redirect', 'relay', 'cache'])
    .default('redirect')
    .describe('How blobs reach the client: redirected to the registry, relayed, or cached'),
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
      anonymous: rate
        .prefault('1000/hour')
        .describe(
          'Container requests and inspections from one client address without an access token: what a pipeline of a hundred processes needs for ten runs',
        ),
      authenticated: rate
        .prefault('3000/minute')
        .describe(
          'Container requests and inspections with the access token of one user: what a head node with thousands of tasks needs at once',
        ),
    })
    .prefault({}),
  builds: z
    .strictObject({
      anonymous: rate.prefault('25/day').describe('Builds begun without an access token'),
      authenticated: rate.prefault('100/hour').describe('Builds begun with an access token'),
    })
    .prefault({}),
  logins: positiveRate
    .prefault('30/minute')
    .describe(
      'Failed logins from one client address before further ones must wait: passwords of accounts, access tokens, and passwords for `validate-creds`',
    ),
  bodyBytes: size.prefault('16 MiB').describe('Maximum size of a request body'),
  bodyMemory: size
    .optional()
    .describe(
      'Memory for all request bodies together; one client address gets a quarter of it. Further bodies wait, then get 503. Default: an eighth of the memory, at most 256 MiB',
    ),
  connections: connections.prefault({}),
});

const layers = z.strictObject({
  maxCount: count.default(20).describe('Injected layers in one container request'),
  maxInlineBytes: size.prefault('10 MiB').describe('Largest layer inside a request (`data:`)'),
  maxUrlBytes: size.prefault('1 GiB').describe('Largest layer behind a URL'),
  fetchTimeout: duration.prefault('15m').describe('Longest time to fetch a layer behind a URL'),
  maxTarBytes: size
    .prefault('8 GiB')
    .describe('Bytes that the layers of one request may unpack to'),
  privateHosts: list
    .default([])
    .describe(
      'Hosts of layer URLs that may be at a loopback, private or link-local address. `registries` does not apply to layer URLs',
    ),
  mounted: list
    .default(['https://fusionfs.seqera.io/'])
    .describe(
      'Prefixes of layer URLs that mark a mounted file system: its pulls are counted separately',
    ),
});

const hosted = z.strictObject({
  anonymous: list
    .default(['public/*'])
    .describe('Hosted repositories that anybody may pull; `*` matches any characters'),
  maxBlobBytes: limit.prefault('off').describe('Maximum size of a pushed blob'),
  maxRepositoryBytes: limit.prefault('off').describe('Maximum size of one hosted repository'),
  maxTotalBytes: limit.prefault('off').describe('Maximum size of all hosted repositories together'),
  maxContextBytes: limit
    .prefault('100 GiB')
    .describe(
      'Maximum size of the uploaded build contexts of one user. `anonymous.maxNetworkBytes` and `anonymous.maxBytes` limit those of callers without an access token',
    ),
  contextLife: duration
    .prefault('24h')
    .describe(
      'How long an uploaded build context is kept after its last upload, for the next one to send only what changed',
    ),
  uploadLife: duration.prefault('1h').describe('How long an interrupted upload can be resumed'),
});

const scrub = z.strictObject({
  trust: duration
    .prefault('24h')
    .describe('How long verified content is served without another check of its digest'),
  interval: duration
    .prefault('7d')
    .describe('Pause between two rounds that verify all content in the background'),
  bytesPerSecond: limit
    .prefault('16 MiB')
    .describe('Speed of that verification. `off`: content is only verified when it is served'),
});

/** Every setting with its default. This schema validates, types and documents them. */
export const configSchema = z.strictObject({
  listen: address.default('127.0.0.1:9090').describe('Address and port to listen on'),
  url: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .optional()
    .describe(
      'Public base URL; its authority is the host of every served image name. Default: `https://<tls.listen>`, without TLS `http://<listen>`',
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
      'Accounts: `name:password[,name:password]` administer everything; in the file also `name: {password, repositories: {"team/*": push}}` with the roles pull, push or administer for hosted repositories only. A password may be its bcrypt or argon2id hash (`sluice account hash`). Without accounts, routes that require one answer 401',
    )
    .meta({ secret: true }),
  accountFiles: accountFiles
    .default([])
    .describe('More accounts, in `htpasswd` files; in the file only'),
  tokenLife: duration.prefault('36h').describe('How long a container token can be used'),
  rightLife: duration
    .prefault('30s')
    .refine(ms => ms >= 100 && ms <= 60_000, 'expected 100ms to 60s')
    .describe(
      'How long an answer about a right to an image is used. The registry and the platform are asked again while kept content is served. The end of a right takes effect after at most twice this time',
    ),
  trustedProxies: count
    .default(0)
    .describe(
      'Number of your own proxies in front, whose `X-Forwarded-For` has the client address',
    ),
  logLevel: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Minimum log level; each request is one line of level info'),
  reportVersion: z
    .enum(['own', 'api'])
    .default('own')
    .describe(
      "Version that `/service-info` reports. `api`: the version of Wave whose API this server provides, then `+sluice.` and Sluice's own version, for clients that compare it (`wave --info`)",
    ),
  stopDelay: duration
    .prefault('2s')
    .describe(
      'How long a server that gets SIGTERM or SIGHUP still takes connections while `/readyz` answers 503, so that load balancers use another server first',
    ),
  drainTime: duration
    .prefault('25s')
    .describe('How long a stopping server waits for running transfers'),
  dockerConfig: z
    .string()
    .optional()
    .describe(
      'Docker `config.json` to take registry credentials from; its text may also be in the environment variable `DOCKER_AUTH_CONFIG`',
    ),
  cacheBytes: size
    .prefault('20 GiB')
    .describe(
      'Disk space for copies of blobs (`blobs: cache`); the least recently used are removed first',
    ),
  access: access.prefault({}),
  limits: limits.prefault({}),
  cors: cors.prefault({}),
  tls: tls.prefault({}),
  disk: disk.prefault({}),
  audit: audit.prefault({}),
  layers: layers.prefault({}),
  hosted: hosted.prefault({}),
  sweep: sweep.prefault({}),
  scrub: scrub.prefault({}),
  anonymous: anonymous.prefault({}),
  buildkit: list
    .pipe(z.array(builder))
    .default([])
    .describe(
      'Addresses of BuildKit: `unix:///path`, `tcp://host:port`, `docker+unix:///path` for the builder in a Docker engine; `off` for none. Default: found by itself',
    ),
  buildkitTls: z
    .record(builder, builderTls)
    .default({})
    .describe('Certificates by the address of the builder, as in `buildkit`; in the file only'),
  buildRepository: repository
    .optional()
    .describe('Where builds are pushed, `registry/path`. Default: hosted, `<own host>/builds`'),
  cacheRepository: repository
    .optional()
    .describe('Where the layers of builds are cached. Default: the builder keeps them itself'),
  freezeRepository: repository
    .optional()
    .describe(
      'Where images are frozen whose requests have `freeze` and no `buildRepository`, `registry/path`: a repository that everybody may pull from, such as the hosted `<own host>/public/frozen`. Images of private base images are refused. Default: none, and such requests are refused',
    ),
  freezeSifRepository: repository
    .optional()
    .describe('The same for Singularity images. Default: `freezeRepository`'),
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
