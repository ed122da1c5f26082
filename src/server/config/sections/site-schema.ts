import { z } from 'zod';
import { size } from '../units.ts';
import { flag } from '../values.ts';

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
