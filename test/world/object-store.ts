import { setTimeout as sleep } from 'node:timers/promises';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { type Daemon, startDaemon } from './daemon.ts';
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
    await waitForResponse(url, started);
    return started;
  };
  let daemon = await launch();
  const client = new S3Client({
    ...{ endpoint: url, region: 'us-east-1', forcePathStyle: true, credentials },
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

async function waitForResponse(url: string, daemon: Daemon): Promise<void> {
  let hasEnded = false;
  daemon.ended.then(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    const isThere = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    await sleep(50);
  }
  throw new Error(`the object store has ended: ${daemon.output()}`);
}
