import type { Bill } from '../bill.ts';
import { linkOrder } from '../link-order.ts';

/**
 * Returns the explicit lock file: the URL of each package with its digest, the MD5 where the channel states it, since every
 * installer reads that. An image for several platforms has a part for each. Source: conda, Building identical conda environments.
 */
export function writeExplicitLock({ platforms }: Bill): string {
  return platforms
    .map(({ subdir, packages }) => {
      const urls = linkOrder(packages).map(({ url, md5, sha256 }) => {
        if (md5 !== undefined) return `${url}#${md5}`;
        return sha256 === undefined ? url : `${url}#sha256:${sha256}`;
      });
      return [`# platform: ${subdir}`, '@EXPLICIT', ...urls, ''].join('\n');
    })
    .join('');
}
