import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { CompletedPart, S3Client } from '@aws-sdk/client-s3';
import { faultOf, isAbsent, isEndedUpload, startFaultOf, WrongRange } from './store-faults.ts';

/** Where content is: `s3://bucket/prefix`, and how it is reached. */
interface BucketPlace {
  readonly address: string;
  /** Default: that of AWS, or what the SDK's variables say. */
  readonly endpoint?: string | undefined;
  /** Default: what the SDK finds; with an endpoint, that of the variables of AWS, or `us-east-1`. */
  readonly region?: string | undefined;
  /** The bucket is in the path of addresses, not in their host. */
  readonly pathStyle: boolean;
  /** The endpoint as clients reach it. Default: `endpoint`. */
  readonly publicEndpoint?: string | undefined;
  /** Default: connections are direct. */
  readonly proxyFor?: StoreProxyFor | undefined;
  /** Milliseconds after which an idle connection is closed (default 15,000). */
  readonly idleMs?: number;
}

export interface FoundObject {
  readonly size: number;
  /** Changes with the bytes. */
  readonly etag: string;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  readonly modified: number;
}

/** Positions of bytes, both included. */
interface Range {
  readonly start: number;
  readonly end: number;
}

/** An S3 bucket, below a prefix. All failures are faults (503); every call ends in time. */
export interface Bucket {
  head(key: string): Promise<FoundObject | undefined>;
  /** Returns all bytes of a small object. */
  read(key: string): Promise<Buffer | undefined>;
  /** Begins to read a range, both ends included. Errors are those of the SDK. */
  fetch(key: string, start: number, end: number, signal: AbortSignal): Promise<Readable>;
  /** Returns an address at which anyone can read the object for so many seconds. Does not ask the store. */
  link(key: string, seconds: number): Promise<URL>;
  put(key: string, bytes: Buffer): Promise<void>;
  /** Puts bytes of any number there; the object appears after the last. Aborts the upload when a part or `parts` fails. */
  upload(key: string, parts: AsyncIterable<Buffer>): Promise<void>;
  copy(from: string, to: string): Promise<void>;
  remove(key: string): Promise<void>;
  /** Lists objects in the order of their keys, a page at a time. */
  list(prefix: string, after?: string): AsyncIterable<ListedObject>;
  /**
   * Ends uploads of content that began before the moment, except those under way here; returns their number.
   * @param signal ends the work between two uploads, and rejects with its reason
   */
  endUploads(before: number, signal?: AbortSignal): Promise<number>;
  close(): void;
}

const callMs = 30_000;
// For a part, through a slow connection.
const sendMs = 300_000;
const connectMs = 5000;
const attempts = 4;
// A slow client holds a connection while it pulls.
const connections = 4096;
// A busy moment opens many connections, and the next call needs one.
const defaultIdleMs = 15_000;

/** Most stores other than AWS take any region, but a signature names one. */
function regionOf({ endpoint, region }: BucketPlace): string | undefined {
  if (region !== undefined || endpoint === undefined) return region;
  const { AWS_REGION, AWS_DEFAULT_REGION } = process.env;
  return AWS_REGION || AWS_DEFAULT_REGION || 'us-east-1';
}

/**
 * Opens a bucket. Loads the SDK.
 *
 * @throws {@link Fault} that names the setting when there is no such bucket, or it refuses the credentials
 */
export async function openBucket(place: BucketPlace): Promise<Bucket> {
  const sdk = await import('@aws-sdk/client-s3');
  const { hostname: Bucket, pathname } = new URL(place.address);
  const prefix = pathname.replace(/^\/+|\/+$/g, '');
  const pathOf = (key: string) => (prefix === '' ? key : `${prefix}/${key}`);
  const own = (key: string) => ({ Bucket, Key: pathOf(key) });
  // The agent closes no connection in use.
  const agent = {
    keepAlive: true,
    maxSockets: connections,
    timeout: place.idleMs ?? defaultIdleMs,
  };
  const region = regionOf(place);
  const handlerOf = (proxyEnv?: NodeJS.ProcessEnv) => {
    const through = proxyEnv === undefined ? agent : { ...agent, proxyEnv };
    return { connectionTimeout: connectMs, httpAgent: through, httpsAgent: through };
  };
  const { proxyFor } = place;
  // Only the SDK has the class of such a handler.
  const proxied = (proxyEnv?: NodeJS.ProcessEnv) =>
    new sdk.S3Client({ requestHandler: handlerOf(proxyEnv) }).config.requestHandler;
  const clientOf = (endpoint: string | undefined): S3Client =>
    new sdk.S3Client({
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(region === undefined ? {} : { region }),
      forcePathStyle: place.pathStyle,
      maxAttempts: attempts,
      // Stores of others do not know the checksums that AWS prefers. Sluice names SHA-256 itself.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      // Asking before each part costs a round trip, and saves the bytes of a part that the store refuses.
      expectContinueHeader: false,
      requestHandler: proxyFor ? storeRequests(proxied, proxyFor) : handlerOf(),
    });
  const client = clientOf(place.endpoint);
  // The signature of an address covers its host.
  const signer = place.publicEndpoint === undefined ? client : clientOf(place.publicEndpoint);
  const inTime = (ms = callMs) => ({ abortSignal: AbortSignal.timeout(ms) });
  const unlessAbsent = (error: unknown): undefined => {
    if (!isAbsent(error)) throw faultOf(error);
  };
  const orFault = (error: unknown): never => {
    throw faultOf(error);
  };
  const orRefusal = (error: unknown): never => {
    throw startFaultOf(error);
  };

  /** Uploads of this process. The clock of the store may be another one. */
  const inFlight = new Set<string>();

  const fetch = async (key: string, signal: AbortSignal, range?: Range) => {
    // Limits the time to the beginning of the response. A reader may take its time for the rest.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), callMs);
    const abort = () => late.abort();
    signal.addEventListener('abort', abort, { once: true });
    try {
      const command = new sdk.GetObjectCommand({
        ...own(key),
        ...(range ? { Range: `bytes=${range.start}-${range.end}` } : {}),
      });
      const { Body, ContentRange } = await client.send(command, { abortSignal: late.signal });
      const body = Body as Readable;
      // Something on the way to the store may ignore ranges.
      if (range && range.start > 0 && !ContentRange?.startsWith(`bytes ${range.start}-`)) {
        body.on('error', () => {}).destroy();
        throw new WrongRange('the response has other bytes than the range');
      }
      return body;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  };

  const sendParts = async (key: string, UploadId: string, parts: AsyncIterable<Buffer>) => {
    const sent: CompletedPart[] = [];
    let sending: Promise<unknown> = Promise.resolve();
    for await (const bytes of parts) {
      // One part is read while the one before is sent.
      await sending;
      const PartNumber = sent.length + 1;
      const part: CompletedPart = { PartNumber, ChecksumSHA256: sha256Of(bytes) };
      sent.push(part);
      const command = new sdk.UploadPartCommand({
        ...own(key),
        UploadId,
        PartNumber,
        Body: bytes,
        ChecksumSHA256: part.ChecksumSHA256,
      });
      sending = client.send(command, inTime(sendMs)).then(({ ETag }) => {
        part.ETag = ETag;
      });
      sending.catch(() => {});
    }
    await sending;
    return sent;
  };

  const begin = new sdk.ListObjectsV2Command({ Bucket, MaxKeys: 1 });
  await client.send(begin, inTime()).catch(error => {
    client.destroy();
    throw startFaultOf(error);
  });

  return {
    async head(key) {
      const found = await client
        .send(new sdk.HeadObjectCommand(own(key)), inTime())
        .catch(unlessAbsent);
      return found && { size: found.ContentLength ?? 0, etag: found.ETag ?? '' };
    },

    async read(key) {
      const signal = AbortSignal.timeout(callMs);
      try {
        const body = await fetch(key, signal);
        signal.addEventListener('abort', () => body.destroy(new Error('silence')));
        return Buffer.concat(await body.toArray());
      } catch (error) {
        return unlessAbsent(error);
      }
    },

    async link(key, expiresIn) {
      const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
      const command = new sdk.GetObjectCommand(own(key));
      // The SDK learns the clock of the store from its responses. The presigner does not use it.
      const signingDate = new Date(Date.now() + client.config.systemClockOffset);
      return new URL(
        await getSignedUrl(signer, command, { expiresIn, signingDate }).catch(orFault),
      );
    },

    fetch: (key, start, end, signal) => fetch(key, signal, { start, end }),

    async put(key, bytes) {
      const ChecksumSHA256 = sha256Of(bytes);
      const command = new sdk.PutObjectCommand({ ...own(key), Body: bytes, ChecksumSHA256 });
      await client.send(command, inTime(sendMs)).catch(orFault);
    },

    async upload(key, parts) {
      const begun = await client
        .send(
          new sdk.CreateMultipartUploadCommand({ ...own(key), ChecksumAlgorithm: 'SHA256' }),
          inTime(),
        )
        .catch(orFault);
      const UploadId = begun.UploadId ?? '';
      inFlight.add(UploadId);
      try {
        const Parts = await sendParts(key, UploadId, parts);
        const end = { ...own(key), UploadId, MultipartUpload: { Parts } };
        await client.send(new sdk.CompleteMultipartUploadCommand(end), inTime(sendMs));
      } catch (error) {
        const abort = new sdk.AbortMultipartUploadCommand({ ...own(key), UploadId });
        // Where the store is away, the next sweep ends it.
        await client.send(abort, inTime()).catch(() => {});
        throw faultOf(error);
      } finally {
        inFlight.delete(UploadId);
      }
    },

    async copy(from, to) {
      const CopySource = [Bucket, ...pathOf(from).split('/')].map(encodeURIComponent).join('/');
      await client
        .send(new sdk.CopyObjectCommand({ ...own(to), CopySource }), inTime(sendMs))
        .catch(orFault);
    },

    async remove(key) {
      await client.send(new sdk.DeleteObjectCommand(own(key)), inTime()).catch(orFault);
    },

    async *list(below, after) {
      let ContinuationToken: string | undefined;
      do {
        const command = new sdk.ListObjectsV2Command({
          Bucket,
          Prefix: pathOf(below),
          ContinuationToken,
          ...(after === undefined ? {} : { StartAfter: pathOf(after) }),
        });
        const page = await client.send(command, inTime()).catch(orFault);
        for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
          const key = Key.slice(pathOf('').length);
          yield { key, size: Size, modified: LastModified?.getTime() ?? 0 };
        }
        ContinuationToken = page.NextContinuationToken;
      } while (ContinuationToken !== undefined);
    },

    async endUploads(before, signal) {
      let ended = 0;
      let from: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } = {};
      for (;;) {
        const command = new sdk.ListMultipartUploadsCommand({
          Bucket,
          Prefix: pathOf('blobs/'),
          ...from,
        });
        const page = await client.send(command, inTime()).catch(orRefusal);
        for (const { Key, UploadId = '', Initiated } of page.Uploads ?? []) {
          signal?.throwIfAborted();
          if (inFlight.has(UploadId) || (Initiated?.getTime() ?? 0) >= before) continue;
          const abort = new sdk.AbortMultipartUploadCommand({ Bucket, Key, UploadId });
          await client
            .send(abort, inTime())
            .catch(error => isEndedUpload(error) || orRefusal(error));
          ended += 1;
        }
        if (!page.IsTruncated) return ended;
        signal?.throwIfAborted();
        from = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
      }
    },

    close() {
      client.destroy();
      signer.destroy();
    },
  };
}

function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('base64');
}

/** Returns the proxy for an address: its URL, and its value of `Proxy-Authorization`. Undefined for a direct connection. */
export type StoreProxyFor = (
  url: URL,
) => { readonly url: URL; readonly authorization: string | undefined } | undefined;

/** Sends the requests of a client. */
type StoreRequests = S3Client['config']['requestHandler'];

type SdkRequest = Parameters<StoreRequests['handle']>[0];

/** Variables of the proxy, as the agents of Node take them. */
type ProxyVariables = { readonly [name in 'HTTP_PROXY' | 'HTTPS_PROXY']: string };

/**
 * Returns a handler that sends each request of the SDK directly or through the proxy for its host. The SDK uses it for the
 * credentials of a role too, which come from another host.
 *
 * @param create makes a handler whose connections pass through a proxy, or are direct ones
 */
function storeRequests(
  create: (proxy?: ProxyVariables) => StoreRequests,
  proxyFor: StoreProxyFor,
): StoreRequests {
  const direct = create();
  const proxied = new Map<string, StoreRequests>();
  // By protocol and host, so that a request costs a look into a map.
  const chosen = new Map<string, StoreRequests>();

  const choose = (origin: string): StoreRequests => {
    const proxy = proxyFor(new URL(origin));
    const address = proxy && addressOf(proxy);
    if (address === undefined) return direct;
    const known = proxied.get(address) ?? create({ HTTP_PROXY: address, HTTPS_PROXY: address });
    proxied.set(address, known);
    return known;
  };

  const handlerFor = ({ protocol, hostname, port }: SdkRequest): StoreRequests => {
    const origin = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}`;
    const found = chosen.get(origin) ?? choose(origin);
    chosen.set(origin, found);
    return found;
  };

  return {
    handle: (request, options) => handlerFor(request).handle(request, options),
    destroy() {
      direct.destroy?.();
      for (const handler of proxied.values()) handler.destroy?.();
    },
    // The SDK changes a handler of its own through these two.
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
  };
}

/** Returns the URL of a proxy with its name and password, which Node wants there. */
function addressOf({ url, authorization }: NonNullable<ReturnType<StoreProxyFor>>): string {
  const address = new URL(url);
  if (authorization === undefined) return address.href;
  const login = Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString();
  const [username = '', ...password] = login.split(':');
  address.username = encodeURIComponent(username);
  address.password = encodeURIComponent(password.join(':'));
  return address.href;
}
