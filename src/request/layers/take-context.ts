import type { SentContext } from '../../builds/plan/index.ts';
import type { SubmittedLayer } from '../submission.ts';
import type { LayerCaller, LayerIntake } from './layers.ts';
import { type UploadedContexts, uploadedScheme } from './uploaded-contexts.ts';

/**
 * Takes in the build context of a request: one in the form of a layer, or one that the caller has uploaded. Throws a
 * `Fault`.
 */
export type TakeContext = (context: SubmittedLayer, caller: LayerCaller) => Promise<SentContext>;

export function createTakeContext(
  layers: Pick<LayerIntake, 'takeContext'>,
  uploaded: UploadedContexts,
): TakeContext {
  return async (context, caller) => {
    if (uploadedScheme.test(context.location)) {
      return { ...(await uploaded.take(context, caller)), isUploaded: true };
    }
    const { gzipDigest: digest, tarDigest } = await layers.takeContext(context, caller);
    return { digest, tarDigest };
  };
}
