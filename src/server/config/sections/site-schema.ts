import { isIP } from 'node:net';
import { z } from 'zod';
import { count, duration, flag, list, size, timer } from '../units.ts';

/** `address:port`, with an IPv6 address in brackets. */
export const address = z
  .string()
  .regex(/^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'expected address:port')
  .refine(text => URL.canParse(`http://${text}`), 'expected address:port');

/** A name, an address, or a network such as `10.0.0.0/16`. */
export const host = z
  .string()
  .refine(
    text => isIP(text) !== 0 || isNetwork(text) || /^\w[\w.-]{0,254}$/i.test(text),
    'expected a host without a port, such as sluice.internal, an address, or a network such as 10.0.0.0/16',
  );

function isNetwork(text: string): boolean {
  const [address = '', prefix = '', ...more] = text.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return more.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
}

/** Limits for the connections of clients. */
export const connections = z.strictObject({
  total: count
    .min(1)
    .default(10_000)
    .describe(
      'Maximum number of open connections of all clients. At most half of the limit of open files',
    ),
  perAddress: count
    .min(1)
    .default(4000)
    .describe(
      'Maximum number of open connections of one client address (an IPv6 /64). With `trustedProxies`: of its requests in progress',
    ),
  requestTime: timer
    .prefault('20s')
    .describe(
      'Timeout for the head of a request, for a TLS handshake, and for each 64 KiB of a body other than an upload',
    ),
  stallTime: timer
    .prefault('5m')
    .describe(
      'Timeout for each 64 KiB of a response that a client receives, or of an upload that it sends',
    ),
});

/** TLS of the server itself. `tlsSettings` checks which settings require each other. */
export const tls = z.strictObject({
  listen: address
    .optional()
    .describe('Address and port for TLS. `listen` stays plain HTTP, for proxies and this machine'),
  certificate: z
    .string()
    .min(1)
    .optional()
    .describe('PEM file with the certificate and its chain. A changed file is used within 5 s'),
  key: z.string().min(1).optional().describe('PEM file with the private key of the certificate'),
  clientCa: z
    .string()
    .min(1)
    .optional()
    .describe(
      'PEM file of the certificate authorities of clients. Default: clients need no certificate',
    ),
  clientCertificates: z
    .enum(['required', 'optional'])
    .default('required')
    .describe(
      'With `clientCa`: whether a client must send a certificate. A certificate that a client sends must be valid in both cases',
    ),
});

const origin = z
  .string()
  .refine(
    text => text === '*' || (/^https?:/.test(text) && URL.parse(text)?.origin === text),
    'expected an origin such as https://portal.example.org, without a path, or *',
  );

/** Access for web pages of other origins. */
export const cors = z.strictObject({
  origins: list
    .pipe(z.array(origin))
    .default([])
    .describe(
      'Origins whose pages may use this server from a browser (CORS), such as `https://portal.example.org`. `*` allows every page, even if only the user of the browser can reach the server',
    ),
});

/** Where content is kept: a word, or the address of a bucket. */
export const content = z
  .string()
  .regex(
    /^(?:directory|s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:\/[\w.-]+)*\/?)$/,
    'expected directory, or s3://bucket/prefix',
  )
  .default('directory')
  .describe(
    'Where content lives: `directory`, below `data`, or `s3://bucket/prefix`, a bucket of an S3-compatible object store. Credentials come from where the AWS SDK finds them, such as `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`. To move existing content, use `sluice migrate --content-to`. One site uses a prefix. `sluice backup` and `sluice restore` do not copy a bucket',
  );

/** How the bucket of `content` is reached. */
export const s3 = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .optional()
    .describe(
      "URL of the object store. Default: that of AWS, unless the SDK's variable `AWS_ENDPOINT_URL_S3` names another",
    ),
  region: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Region of the bucket. Default: `AWS_REGION`. With an endpoint also `AWS_DEFAULT_REGION`, then `us-east-1`. Most other stores take any',
    ),
  pathStyle: flag
    .default(false)
    .describe(
      '`true`: the name of the bucket is in the path of URLs, not in the host. Most stores other than AWS require it',
    ),
  redirect: flag
    .default(false)
    .describe(
      '`true`: clients read blobs of 1 MiB and more from the object store, by a signed address that is valid for 20 minutes. Clients and builders must reach the store. A server that has not checked a blob for `scrub.trust` sends it itself once, and checks it',
    ),
  publicEndpoint: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .optional()
    .describe('URL of the object store as clients reach it, for `redirect`. Default: `endpoint`'),
  cacheBytes: size
    .prefault('10 GiB')
    .describe(
      'Copies of content on the disk of `data`, for programs that need files. The least recently used are removed',
    ),
});

/** One of several servers of a site. */
export const replica = z.strictObject({
  address: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .optional()
    .describe(
      'URL at which the other replicas reach this server, such as `http://10.1.2.3:9090`. Makes it one of several servers of a site: one leads, the others hand their requests on to it, and one of them takes its place when it ends. Requires `database: postgres://...`, `content: s3://...`, `url` and `replica.keys`. Default: the only server of its site',
    ),
  keys: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Directory with `secrets.key` and `registry-token.key`, which must be the same for all replicas. Default: `data`, for a site with one server',
    ),
});

/** A replica of the database. */
export const readReplica = z.strictObject({
  database: z
    .string()
    .regex(/^postgres(?:ql)?:\/\/\S+$/, 'expected postgres://...')
    .optional()
    .describe(
      'A read replica (hot standby, by streaming replication) of the PostgreSQL database in `database`, `postgres://user:password@host:port/database`. It answers what may be seconds old: catalogs, lists of builds, repositories and pulls, and figures of usage. Pulls, rights, sessions and all changes use `database`. Default: none',
    )
    .meta({ secret: true }),
  maxAge: timer
    .prefault('10s')
    .describe(
      'How old what `readReplica.database` answers may be. While it is further behind, or does not answer, `database` answers',
    ),
});

const leastListingBytes = 16 * 1024 ** 2;

/** Free space that the server leaves on the disk of its state. */
export const disk = z.strictObject({
  minFreeBytes: size
    .prefault('1 GiB')
    .describe(
      'Free space to keep on the disk of `data`, at most 5 % of the disk. Below it, pushes, requests and builds are refused (507), pulls continue, and `/readyz` answers 503. `0`: no reserve',
    ),
  anyFileSystem: flag
    .default(false)
    .describe(
      'Start also when `data` is on a file system where locks and syncs may not hold: NFS, SMB or AFS, or an overlay with the option `volatile`. Only one machine may then use the directory, and a power failure may lose changes that were acknowledged',
    ),
  listingBytes: size
    .prefault('512 MiB')
    .refine(bytes => bytes >= leastListingBytes, 'must be 16 MiB or more')
    .describe(
      'Lists of the files in layers that somebody looked into, about 1 MB for 50,000 files. The least recently used are removed, and an image whose lists take more than half of it is not compared',
    ),
});

/** When unreferenced content is removed. */
export const sweep = z.strictObject({
  interval: duration
    .prefault('6h')
    .describe('Interval between two removals of unreferenced content'),
  grace: duration
    .prefault('24h')
    .describe('Minimum time that content is kept after its last use, so that pushes can finish'),
});
