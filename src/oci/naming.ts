/** Names of images, registries and platforms. */

export {
  type Architecture,
  architectures,
  knownArchitecture,
  namedArchitectures,
  namesOf,
  supportedPlatforms,
} from './architecture.ts';
export {
  defaultPlatform,
  defaultPlatformName,
  formatPlatform,
  goArchitecture,
  isAttestation,
  isNestedIndex,
  listPlatforms,
  matchesPlatform,
  offeredPlatforms,
  type Platform,
  parsePlatform,
  selectPlatform,
} from './platform.ts';
export {
  canonicalRegistry,
  formatReference,
  isRepository,
  isTag,
  maxNameLength,
  parseReference,
  type Reference,
  repositoryPattern,
} from './reference.ts';
export { registryHost, withoutApi } from './registry-name.ts';
export { OciSyntaxError } from './syntax-error.ts';
