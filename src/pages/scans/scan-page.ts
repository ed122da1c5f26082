import type { ScanRoutesDeps } from '../../http/api/index.ts';
import { requireScans } from '../../http/api/index.ts';
import { type Scan, severities, type Vulnerability } from '../../scans/index.ts';
import {
  countText,
  foldedText,
  type Html,
  html,
  safeAddress,
  shortDigest,
  timeElement,
  visibleText,
} from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

export type ScanPageDeps = ScanRoutesDeps;

/** The page of a scan. Everyone who knows the id of a scan may see it, as in the JSON API. */
export const scanPage = pageRoute({
  method: 'get',
  path: '/view/scans/{scanId}',
  access: 'anybody',
  run: async ({ params }, { scans }: ScanPageDeps) =>
    pageOf(await requireScans(scans).get(params.scanId)),
});

// All texts of a scan come from the scanner and its database.
function pageOf(scan: Scan): Page {
  const { id, image, createdAt, finishedAt, succeeded, reason, report } = scan;
  const base = `/v1alpha1/scans/${encodeURIComponent(id)}`;
  const state = succeeded === null ? 'Running' : succeeded ? 'Finished' : 'Failed';
  return {
    title: `Scan ${visibleText(id, 60)}`,
    ...(finishedAt === null ? { refreshSeconds: 5 } : {}),
    content: html`<h1>Security scan</h1>
<dl class="facts">
<dt>Image</dt><dd>${foldedText(image)}</dd>
<dt>State</dt><dd>${state}</dd>
${reason !== null && html`<dt>Reason</dt><dd>${foldedText(reason)}</dd>`}
<dt>Requested</dt><dd>${timeElement(createdAt)}</dd>
${report && html`<dt>Scanner</dt><dd>${visibleText(report.scanner, 100)}</dd>`}
${report?.packages !== undefined && html`<dt>Packages</dt><dd>${countText(report.packages)}</dd>`}
</dl>
<p><a href="${base}/logs">Log</a>${
      report && html` · <a href="${base}/sarif" download="scan.sarif">Vulnerabilities (SARIF)</a>`
    }${
      report?.packages !== undefined &&
      html` · <a href="${base}/spdx" download="bom.spdx.json">Bill of materials (SPDX)</a>`
    }</p>
${report && findings(report)}`,
  };
}

function findings({ counts, vulnerabilities }: NonNullable<Scan['report']>): Html {
  const all = severities.reduce((sum, severity) => sum + (counts[severity] ?? 0), 0);
  if (all === 0) {
    return html`<h2>Vulnerabilities</h2>
<p>The scanner knows of none in this image.</p>`;
  }
  const words = severities.flatMap(severity => {
    const count = counts[severity];
    return count ? [`${countText(count)} ${severity}`] : [];
  });
  const left = all - vulnerabilities.length;
  return html`<h2>Vulnerabilities</h2>
<p>${words.join(', ')}</p>
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">Severity</th><th scope="col">Vulnerability</th><th scope="col">Package</th><th scope="col">Installed</th><th scope="col">Fixed</th><th scope="col">Layer</th></tr></thead>
<tbody>${vulnerabilities.map(rowOf)}</tbody>
</table></div>
${left > 0 && html`<p class="minor">${countText(left)} less severe ones are not listed.</p>`}`;
}

function rowOf(found: Vulnerability): Html {
  const { id, severity, title, pkgName, installedVersion, fixedVersion, primaryUrl, layer } = found;
  const address = primaryUrl === undefined ? undefined : safeAddress(primaryUrl);
  const name = visibleText(id, 100);
  return html`<tr><td>${severity}</td><td>${
    address ? html`<a href="${address}" rel="noreferrer nofollow">${name}</a>` : name
  }<div class="minor">${visibleText(title, 300)}</div></td><td>${visibleText(pkgName, 200)}</td><td>${visibleText(installedVersion, 100)}</td><td>${visibleText(fixedVersion ?? '', 100)}</td><td>${
    layer && html`<code>${visibleText(shortDigest(layer), 60)}</code>`
  }</td></tr>`;
}
