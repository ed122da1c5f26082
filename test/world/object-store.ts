import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { type Daemon, startDaemon, waitUntil } from './daemon.ts';
import { freePort } from './free-port.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireObjectStore } from './tools.ts';

/** A running object store with the API of S3. */
export interface ObjectStore extends AsyncDisposable {
  readonly url: string;
  /** The variables with which the AWS SDK finds the credentials. */
  readonly env: Readonly<Record<string, string>>;
  /** A client with these credentials. */
  readonly client: S3Client;
  /** Makes an empty bucket and returns its name. */
  createBucket(): Promise<string>;
  /** Starts the store again after `kill`, on the same port. */
  start(): Promise<void>;
  /** Kills it at once. */
  kill(): Promise<void>;
}

export interface ObjectStoreOptions {
  /** The directory of its data, which remains. Default: a temporary one. */
  readonly place?: string;
}

const responseMs = 5000;
// For a request to the store, on a busy machine.
const requestMs = 60_000;
const credentials = { accessKeyId: 'tester', secretAccessKey: 'sesame-for-the-store' };

/** Starts the object store on a free port of 127.0.0.1. */
export async function startObjectStore({ place }: ObjectStoreOptions = {}): Promise<ObjectStore> {
  const program = requireObjectStore();
  const directory = await makeTempDir('object-store');
  const host = `127.0.0.1:${await freePort()}`;
  const url = `http://${host}`;
  const launch = async (): Promise<Daemon> => {
    const options = ['--port', host, '--keep-alive', '--quiet', '--region', 'us-east-1'];
    const started = startDaemon(program, [...options, 'posix', place ?? directory.path], {
      env: {
        ROOT_ACCESS_KEY: credentials.accessKeyId,
        ROOT_SECRET_KEY: credentials.secretAccessKey,
      },
    });
    // A test that got the same port may have a server there that accepts connections and answers none.
    const answers = () =>
      fetch(url, { signal: AbortSignal.timeout(responseMs) }).then(
        () => true,
        () => false,
      );
    await waitUntil(started, answers);
    return started;
  };
  let daemon = await launch();
  const client = new S3Client({
    ...{ endpoint: url, region: 'us-east-1', forcePathStyle: true, credentials },
    requestHandler: { requestTimeout: requestMs, throwOnRequestTimeout: true },
  });
  let buckets = 0;
  const kill = async () => {
    daemon.process.kill('SIGKILL');
    await daemon.ended;
  };
  return {
    ...{ url, client, kill },
    env: {
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    async createBucket() {
      buckets += 1;
      const Bucket = `bucket-${buckets}`;
      await client.send(new CreateBucketCommand({ Bucket }));
      return Bucket;
    },
    async start() {
      daemon = await launch();
    },
    async [Symbol.asyncDispose]() {
      client.destroy();
      await kill();
      await directory.remove();
    },
  };
}
