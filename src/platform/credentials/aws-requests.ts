import { Readable } from 'node:stream';
import type { ECRClientConfig } from '@aws-sdk/client-ecr';
import { readAll, type Transport } from '../../upstream/index.ts';

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
export function awsRequests(
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
      const body = Readable.from([await readAll(reply.body, largestResponse, 'The answer of AWS')]);
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
