import type { Submission } from '../../request/index.ts';
import type { Values } from '../command/command.ts';
import { post, RefusedError } from '../server/server-client.ts';
import type { ImageResponse } from './image-response.ts';

/**
 * Sends a container request. Its failures and warnings name the options of the command line in place of the fields. Throws
 * like {@link post}.
 */
export async function requestContainer(values: Values, body: object): Promise<ImageResponse> {
  try {
    const response = (await post(values, '/v1alpha2/container', body)) as ImageResponse;
    const { warnings } = response;
    return warnings ? { ...response, warnings: warnings.map(inOptionWords) } : response;
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    throw new RefusedError(inOptionWords(error.message), error.status);
  }
}

// How messages write a field with a value, and the fields that an option alone stands for.
const options: Readonly<Partial<Record<keyof Submission, string>>> & Record<string, string> = {
  'format: sif': '--format sif',
  'freeze: true': '--freeze',
  format: '--format',
  freeze: '--freeze',
  buildRepository: '--push-to',
  cacheRepository: '--cache-repository',
  containerPlatform: '--platform',
  nameStrategy: '--name-strategy',
  buildTarget: '--target',
  noCache: '--no-cache',
  noTest: '--no-test',
  buildArgs: '--build-arg',
  labels: '--label',
  annotations: '--annotation',
  created: '--created',
  secrets: '--secret',
  ssh: '--ssh',
};

/** Returns a message of the server with options in place of the fields that they set. */
export function inOptionWords(message: string): string {
  return message.replaceAll(/'(\w+(?:: \w+)?)'/g, (all, field: string) =>
    Object.hasOwn(options, field) ? (options[field] ?? all) : all,
  );
}
