import { Fault } from '../foundation/fault.ts';
import { changesIn, type ImageChange } from '../images/augment/index.ts';
import type { Reference } from '../oci/naming.ts';
import type { ContainerRequest } from './container-request.ts';
import type { TokenRegistry } from './tokens/token-registry.ts';

/**
 * Returns the container request that an image name of this server refers to; undefined for other images. Throws a
 * {@link Fault}: 400 for an unknown or ended token, 403 where the name alone is not enough to pull.
 */
export type FindServed = (image: Reference) => Promise<ContainerRequest | undefined>;

export interface FindServedDeps {
  readonly tokens: Pick<TokenRegistry, 'get'>;
  readonly ownHost: string;
  /** The prefix of the repositories of served names. */
  readonly servedPrefix: string;
  /** True if a served name is enough to pull its image. */
  readonly isOpen: boolean;
}

export function createFindServed(deps: FindServedDeps): FindServed {
  const { tokens, ownHost, servedPrefix, isOpen } = deps;
  return async ({ registry, repository, tag, digest }) => {
    if (registry !== ownHost || !repository.startsWith(servedPrefix)) return undefined;
    if (!isOpen) {
      throw new Fault(
        'denied',
        'Pulls of served names require a login at this server, so they cannot be used here: name the image that the container request was made for',
        { phase: 'credentials' },
      );
    }
    const [token = '', ...path] = repository.slice(servedPrefix.length).split('/');
    const request = await getLive(tokens, token);
    const { image, fixed, isFrozen, targetImage } = request;
    if (isFrozen) {
      throw new Fault('bad-request', `The image is frozen: name it as ${targetImage}`, {
        phase: 'request',
      });
    }
    const isTag = digest === undefined && tag === (image.tag ?? 'latest');
    const isIt = isTag || (digest !== undefined && digest === fixed?.served.digest);
    if (path.join('/') === image.repository && isIt) return request;
    throw new Fault(
      'bad-request',
      `This container token serves ${nameOf(request)} only: check the image name`,
      { phase: 'request' },
    );
  };
}

async function getLive(
  tokens: Pick<TokenRegistry, 'get'>,
  token: string,
): Promise<ContainerRequest> {
  try {
    return await tokens.get(token);
  } catch (cause) {
    if (!(cause instanceof Fault) || cause.kind !== 'not-found') throw cause;
    throw new Fault('bad-request', `The image is a served name. ${cause.message}`, {
      phase: 'request',
      cause,
    });
  }
}

/** Returns the name without the token: the token gives access. */
function nameOf({ targetImage, image }: ContainerRequest): string {
  return targetImage.slice(targetImage.lastIndexOf(`/${image.repository}`) + 1);
}

// The limit of one request.
const maxChangeText = 1024 * 1024;
const maxChanges = 4;

/** Returns a change that is applied after another change. Throws a {@link Fault} (400) for too many changes. */
export function onTopOf(before: ImageChange, change: ImageChange): ImageChange {
  const both = { ...change, onTopOf: before };
  if (changesIn(both).length > maxChanges || JSON.stringify(both).length > maxChangeText) {
    throw new Fault(
      'bad-request',
      `'containerImage' has been changed by too many container requests, one after another: at most ${maxChanges} changes of ${maxChangeText} characters are possible. Name the image that the first one was made for`,
      { phase: 'request' },
    );
  }
  return both;
}
