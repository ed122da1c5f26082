/** Names of images, registries and platforms. */

export {
  type Architecture,
  architectures,
  compareVariants,
  defaultPlatform,
  defaultPlatformName,
  formatPlatform,
  goArchitecture,
  isAttestation,
  isNestedIndex,
  knownArchitecture,
  listPlatforms,
  matchesPlatform,
  namedArchitectures,
  namesOf,
  offeredPlatforms,
  type Platform,
  parsePlatform,
  runsOn,
  selectPlatform,
  supportedPlatforms,
} from './platform.ts';
export {
  canonicalRegistry,
  formatReference,
  isRepository,
  isTag,
  maxNameLength,
  parseReference,
  type Reference,
  registryHost,
  repositoryPattern,
  usersFolder,
  withoutApi,
} from './reference.ts';
export { OciSyntaxError } from './syntax-error.ts';
