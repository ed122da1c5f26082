/** Definition files, and the settings of Singularity images. */

export {
  changeDefinition,
  type DefinitionRuntime,
  ignoredInSif,
  imageDefinition,
} from '../runtime/definition-runtime.ts';
export { createSifSigner, type SifSigner } from '../signing/signer.ts';
export { type Compression, compressionLevels } from '../squashfs/compression.ts';
export { isDefinition, type ShelllessBuild, translateDefinition } from './definition.ts';
export { sectionAt, shownText, splitStages } from './parser.ts';
