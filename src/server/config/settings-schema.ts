import { z } from 'zod';
import { parseAddress } from '../../buildkit/index.ts';
import { parseBuilderName } from '../../builds/builder/named-builders.ts';
import { parseReference } from '../../oci/naming.ts';
import {
  access,
  accountFiles,
  accounts,
  anonymous,
  audit,
  tokens,
} from './sections/access-schema.ts';
import { builds, sif } from './sections/builds-schema.ts';
import { channels, conda } from './sections/conda-schema.ts';
import { messages } from './sections/messages-schema.ts';
import { pypi } from './sections/pypi-schema.ts';
import { scans } from './sections/scans-schema.ts';
import {
  address,
  connections,
  content,
  cors,
  disk,
  host,
  readReplica,
  replica,
  s3,
  sweep,
  tls,
} from './sections/site-schema.ts';
import { platform, upstream } from './sections/upstream-schema.ts';
import {
  count,
  duration,
  flag,
  limit,
  list,
  positiveRate,
  rate,
  registryHost,
  size,
  withWords,
} from './units.ts';

const repository = z.string().refine(text => {
  try {
    // The tag is added here, so a reference that has a tag or digest already becomes malformed.
    parseReference(`${text}:tag`);
    return text.includes('/');
  } catch {
    return false;
  }
}, 'expected registry/path, without a tag');

const repositoryOrOff = withWords(z.union([z.literal('off'), repository])).optional();

const builder = z.string().superRefine((text, context) => {
  if (text === 'off') return;
  try {
    if (parseBuilderName(text) === undefined) parseAddress(text);
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

/** How much work one builder gets, or each builder behind one name. */
const builderShare = z.strictObject({
  weight: z
    .number()
    .positive()
    .max(1000)
    .optional()
    .describe('Builds that it gets for each build that a builder of weight 1 gets. Default: 1'),
  builds: z
    .number()
    .int()
    .positive()
    .optional()
    .describe('Maximum number of simultaneous builds. Default: no limit but `builds.concurrent`'),
});

const traces = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/, error: 'expected the URL of a collector' })
    .optional()
    .describe(
      'Collector of traces that takes OTLP over HTTP, such as `http://collector:4318`. `OTEL_EXPORTER_OTLP_HEADERS` has the headers that it requires. Default: none, and no traces',
    ),
  share: z.coerce
    .number('expected a number from 0 to 1')
    .min(0)
    .max(1)
    .default(1)
    .describe('Part of the traces that is recorded, from 0 to 1'),
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
      'Use the credentials of this registry, listed here or in a Docker configuration, also for callers without a login. A mirror with credentials requires it, because a mirror serves all callers',
    ),
  plainHttp: flag.default(false).describe('Use http instead of https'),
  ca: z
    .string()
    .optional()
    .describe(
      'PEM file of a certificate authority of this registry, in addition to the public authorities',
    ),
  mirrors: list
    .default([])
    .describe(
      'Registry hosts to try first, in order. Each may be listed here with its own settings',
    ),
  allowPrivateAddress: flag
    .default(true)
    .describe('Allow the registry to be at a loopback, private or link-local address'),
  blobs: z
    .enum(['redirect', 'relay', 'cache'])
    .default('redirect')
    .describe(
      'How blobs reach the client. `redirect`: from the registry itself. `relay`: through this server. `cache`: through this server, which keeps a copy',
    ),
  tokenHosts: list
    .default([])
    .describe("Hosts outside the registry's own domain that may issue its bearer tokens"),
});

const limits = z.strictObject({
  pulls: z
    .strictObject({
      anonymous: rate
        .prefault('250/hour')
        .describe('Pulls from one client address without a login'),
      authenticated: rate
        .prefault('1000/minute')
        .describe('Pulls of images that were requested with the access token of one user'),
    })
    .prefault({}),
  requests: z
    .strictObject({
      anonymous: rate
        .prefault('1000/hour')
        .describe(
          'Container requests and inspections from one client address without a login. The default allows ten runs of a pipeline with a hundred processes',
        ),
      authenticated: rate
        .prefault('3000/minute')
        .describe(
          'Container requests and inspections with the access token of one user. The default allows thousands of tasks to start at once',
        ),
    })
    .prefault({}),
  builds: z
    .strictObject({
      anonymous: rate
        .prefault('25/day')
        .describe('Builds started from one client address without a login'),
      authenticated: rate
        .prefault('100/hour')
        .describe('Builds started with the access token of one user'),
    })
    .prefault({}),
  logins: positiveRate
    .prefault('30/minute')
    .describe(
      'Failed logins from one client address before further logins are refused (429). Counts passwords of accounts, access tokens, and passwords for `validate-creds`',
    ),
  bodyBytes: size.prefault('16 MiB').describe('Maximum size of a request body'),
  bodyMemory: size
    .optional()
    .describe(
      'Memory for all request bodies together, of which one client address gets a quarter. Further requests wait, and are then refused (503). Default: an eighth of the memory of the machine, at most 256 MiB',
    ),
  connections: connections.prefault({}),
});

const layers = z.strictObject({
  maxCount: count
    .default(20)
    .describe('Maximum number of injected layers in one container request'),
  maxInlineBytes: size
    .prefault('10 MiB')
    .describe('Maximum size of a layer inside a request (`data:`)'),
  maxUrlBytes: size
    .prefault('1 GiB')
    .describe('Maximum size of a layer that is downloaded from a URL'),
  fetchTimeout: duration.prefault('15m').describe('Timeout for the download of a layer'),
  maxTarBytes: size
    .prefault('8 GiB')
    .describe('Maximum size of the unpacked layers of one request'),
  privateHosts: list
    .default([])
    .describe(
      'Hosts, with a port or for all ports, from which layers may be downloaded at a loopback, private or link-local address. `registries` does not apply to layer URLs',
    ),
  mounted: list
    .default(['https://fusionfs.seqera.io/'])
    .describe(
      'Prefixes of layer URLs. Pulls of images with such a layer are counted separately, as pulls with a mounted file system',
    ),
});

const hosted = z.strictObject({
  anonymous: list
    .default(['public/*'])
    .describe('Hosted repositories that everybody may pull; `*` matches any characters'),
  maxBlobBytes: limit.prefault('off').describe('Maximum size of a pushed blob'),
  maxRepositoryBytes: limit.prefault('off').describe('Maximum size of one hosted repository'),
  maxTotalBytes: limit.prefault('off').describe('Maximum size of all hosted repositories together'),
  maxContextBytes: limit
    .prefault('100 GiB')
    .describe(
      'Maximum size of the uploaded build contexts of one user. `anonymous.maxNetworkBytes` and `anonymous.maxBytes` limit those of callers without a login',
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
    .describe('How long content is served after a check of its digest before it is checked again'),
  interval: duration
    .prefault('7d')
    .describe('Pause between two verifications of all content in the background'),
  bytesPerSecond: limit
    .prefault('16 MiB')
    .describe(
      'Bytes per second that the background verification reads. `off`: content is only verified when it is served',
    ),
});

/** Every setting with its default. This schema validates, types and documents them. */
export const configSchema = z.strictObject({
  listen: address.default('127.0.0.1:9090').describe('Address and port to listen on'),
  url: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .optional()
    .describe(
      'Public base URL. Its host and port begin every served image name. Default: `https://<tls.listen>` with TLS, otherwise `http://<listen>`',
    ),
  local: flag
    .default(false)
    .describe(
      'Only people of this machine can reach the server, although it listens on other addresses: a container whose port is published at 127.0.0.1. Callers without a login may then build and freeze, as on a server that listens on 127.0.0.1',
    ),
  hosts: list
    .pipe(z.array(host))
    .default([])
    .describe(
      'Further names, addresses and networks (`10.0.0.0/16`) under which clients reach this server, without a port. It answers to these, the host of `url`, `localhost` and its own addresses; other hosts get 421',
    ),
  data: z
    .string()
    .min(1)
    .default('./data')
    .describe('Data directory: the database, content, logs and keys'),
  database: z
    .string()
    .regex(/^(?:sqlite|postgres(?:ql)?:\/\/\S+)$/, 'expected sqlite, or postgres://...')
    .default('sqlite')
    .describe(
      'Where rows live: `sqlite`, a file in the data directory, or a PostgreSQL database of version 15 or later, `postgres://user:password@host:port/database`, in UTF-8. Name PostgreSQL itself, not a connection pooler. `sluice migrate` moves the rows of a site from one to the other. One server at a time changes it (see `replica.address`). `sluice backup` and `sluice restore` do not copy PostgreSQL',
    )
    .meta({ secret: true }),
  content,
  s3: s3.prefault({}).describe('How the bucket of `content` is reached'),
  replica: replica.prefault({}),
  readReplica: readReplica.prefault({}),
  prefix: z
    .string()
    .regex(/^[a-z0-9]+(?:[._-][a-z0-9]+)*$/, 'expected one path segment of an image name')
    .default('ct')
    .describe('First path segment of served names'),
  accounts: accounts
    .prefault({})
    .describe(
      'Accounts. `name:password[,name:password]` in the environment, a map in the configuration file. They are administrators who may do everything; with `name: {password, repositories: {"team/*": push}}` they only have the roles pull, push or administer for hosted repositories, and with `roles: [site, audit]` they administer a part of the server: `site` (requests, builds, users, workspaces, figures), `tokens` (of users), `credentials` (of users and workspaces), `audit`, `registries` (the use of the registry credentials of this configuration). A password may be a bcrypt or argon2id hash (`sluice account hash`). Default: none, and routes that require an account answer 401',
    )
    .meta({ secret: true }),
  accountFiles: accountFiles
    .default([])
    .describe('`htpasswd` files with more accounts; in the configuration file only'),
  tokenLife: duration
    .prefault('36h')
    .describe('Lifetime of a served image name (its container token)'),
  tokens: tokens.prefault({}).describe('Names that live with their run, or that are not given'),
  rightLife: duration
    .prefault('30s')
    .refine(ms => ms >= 100 && ms <= 60_000, 'expected 100ms to 60s')
    .describe(
      'How long the response of a registry or platform about a right to an image is used before it is asked again. A right that ends takes effect after at most twice this time. From 100ms to 60s',
    ),
  trustedProxies: count
    .default(0)
    .describe(
      'Number of your own proxies in front of this server. Their `X-Forwarded-For` header then names the client address, and their `X-Request-Id` is in the log',
    ),
  pages: withWords(z.enum(['on', 'off']))
    .default('on')
    .describe(
      'Pages for people, at `/`, `/docs` and below `/view/`. `off`: browsers get the same responses as programs',
    ),
  documentation: z
    .string()
    .max(1000)
    .refine(text => /^https?:\/\//.test(text) && URL.canParse(text), 'expected https://host[/path]')
    .optional()
    .describe(
      'Address of documentation for the people who use this server, such as the site that `npm run site` makes. Each page links to it',
    ),
  logLevel: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe(
      'Minimum log level: `fatal`, `error`, `warn`, `info`, `debug` or `silent`. Each request is one line of level info',
    ),
  logFormat: z
    .enum(['auto', 'json', 'text'])
    .default('auto')
    .describe(
      'Form of log lines: `json`, or `text` for people. `auto`: `text` where the standard output is a terminal, `json` elsewhere',
    ),
  reportVersion: z
    .enum(['own', 'api'])
    .default('own')
    .describe(
      "Version that `/service-info` reports. `api`: the version of Wave whose API this server provides, then `+sluice.` and Sluice's own version, for clients that compare it (`wave --info`)",
    ),
  stopDelay: duration
    .prefault('2s')
    .describe(
      'Time between SIGTERM or SIGHUP and the stop. Meanwhile `/readyz` answers 503, so that load balancers switch to another server. Connections are accepted, and each ends after its next answer',
    ),
  drainTime: duration
    .prefault('25s')
    .describe('How long a stopping server waits for running transfers'),
  dockerConfig: z
    .string()
    .optional()
    .describe(
      'Docker `config.json` with registry credentials. The environment variable `DOCKER_AUTH_CONFIG` may hold its text instead',
    ),
  cacheBytes: size
    .prefault('20 GiB')
    .describe(
      'Disk space for copies of blobs: of registries with `blobs: cache`, and of the base images of builds. The least recently used copies are removed first',
    ),
  access: access.prefault({}),
  limits: limits.prefault({}),
  cors: cors.prefault({}),
  tls: tls.prefault({}),
  disk: disk.prefault({}),
  audit: audit.prefault({}),
  traces: traces.prefault({}),
  messages: messages
    .prefault({})
    .refine(({ mail }) => mail.server === undefined || mail.from !== undefined, {
      path: ['mail', 'from'],
      message: "expected the sender's address beside messages.mail.server",
    }),
  scans: scans.prefault({}),
  layers: layers.prefault({}),
  hosted: hosted.prefault({}),
  sweep: sweep.prefault({}),
  scrub: scrub.prefault({}),
  anonymous: anonymous.prefault({}),
  buildkit: withWords(list.pipe(z.array(builder)))
    .default([])
    .describe(
      'Addresses of BuildKit: `unix:///path`, `tcp://host:port`, `dns+tcp://name:port` for one builder at each address of a name, `docker+unix:///path` for the builder in a Docker engine; `off` for none. Default: the BuildKit or Docker engine on this machine. Builds with secrets, with proxy arguments or of callers without a login run only on a builder that no other caller shares: one that Sluice starts, or one whose worker has the label `sluice.wipe=prune` (`[worker.oci.labels]` in buildkitd.toml), which Sluice empties between two callers. Give the label only to a builder that nothing else uses',
    ),
  buildkitTls: z
    .record(builder, builderTls)
    .default({})
    .describe(
      'Certificates by the address of the builder, as in `buildkit`; in the configuration file only',
    ),
  buildkitShares: z
    .record(builder, builderShare)
    .default({})
    .describe(
      'How much work builders get, by their address as in `buildkit`; in the configuration file only',
    ),
  buildRepository: repository
    .optional()
    .describe(
      'Repository that builds are pushed to, `registry/path`. Default: the hosted repository `<own host>/builds`',
    ),
  cacheRepository: repository
    .optional()
    .describe(
      'Repository that caches the layers of builds, `registry/path`. Default: none, only the builder has a cache',
    ),
  freezeRepository: repositoryOrOff.describe(
    'Repository for frozen images of requests without `buildRepository`, `registry/path`; `off` for none. Everybody must be able to pull from it, such as from the hosted `<own host>/public/frozen`, so images with private base images are refused. Default: the command line and the pages push to a repository of the user on this server. Without a login, they push to `<own host>/public/frozen` where `access.builds` would be `open` by default. Other requests are refused',
  ),
  freezeSifRepository: repositoryOrOff.describe(
    'The same for frozen Singularity images. Default: `freezeRepository`; where that has no value, `<own host>/public/sif`',
  ),
  builds: builds.prefault({}),
  sif: sif.prefault({}),
  platform: platform.prefault({}),
  upstream: upstream.prefault({}),
  registries: z
    .record(registryHost, registry)
    .default({})
    .describe(
      'Settings by the exact host of a registry, with its port; in the configuration file only',
    ),
  conda: conda.prefault({}),
  channels: channels
    .default({})
    .describe(
      'Settings by the name or base URL of a conda channel; in the configuration file only',
    ),
  pypi: pypi
    .default({})
    .describe(
      'Settings by the base URL of an index of Python packages, such as `https://pypi.org/simple`, from which the packages of pip come; with `url`, they come from there instead. Also by the base URL of a host that has the files of an index. In the configuration file only',
    ),
});

export type Config = z.output<typeof configSchema>;
