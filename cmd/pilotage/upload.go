package main

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

// uploadSources puts local files to the storage elements and describes them.
// A file's place on a storage element is named by its content, so the same
// bytes are put once.
func (a *app) uploadSources(ctx context.Context, c *clients, sources []workflow.ExternalFile, sites []string) ([]*pb.File, error) {
	var plan *pb.PlanUploadResponse
	err := a.out.again(ctx, func() (err error) {
		plan, err = c.files.PlanUpload(ctx, &pb.PlanUploadRequest{Sites: sites})
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(plan.GetTargets()) == 0 {
		return nil, coded(exitConflict, "no site that takes uploads has a storage element: add one with `pilotage site add NAME --se URL`, or open a drained site with `pilotage site drain --resume NAME`")
	}
	progress := a.out.progress()
	bar := progress.AddBar(int64(len(sources)*len(plan.GetTargets())),
		mpb.PrependDecorators(decor.Name("upload ")), mpb.AppendDecorators(decor.CountersNoUnit("%d / %d")))
	var elements []string
	for _, target := range plan.GetTargets() {
		elements = append(elements, target.GetStorageUrl())
	}
	client := a.ownStorage(elements)
	defer client.Close()
	files := make([]*pb.File, 0, len(sources))
	for _, source := range sources {
		file, err := putEverywhere(ctx, client, source, plan.GetTargets(), bar.Increment)
		if err != nil {
			bar.Abort(false)
			progress.Wait()
			return nil, err
		}
		files = append(files, taskpb.File(file))
	}
	progress.Wait()
	return files, nil
}

// checkSources finds local files that cannot be uploaded before any of them is.
func checkSources(plan *workflow.Plan) error {
	const most = 20
	var missing []error
	for _, file := range plan.Files {
		if file.Source == "" {
			continue
		}
		path, err := filepath.Abs(file.Source)
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(path); err == nil && !info.Mode().IsRegular() {
				err = fmt.Errorf("%s is not a regular file", path)
			}
		}
		if err == nil {
			continue
		}
		if missing = append(missing, fmt.Errorf("file %s: %w: correct the path, which in a workflow file is relative to that file", file.Name, err)); len(missing) == most {
			break
		}
	}
	return errors.Join(missing...)
}

// progress shows bars on a terminal and nothing elsewhere.
func (o *console) progress() *mpb.Progress {
	if o.output == "table" && isTerminal(o.stderr) {
		return mpb.New(mpb.WithOutput(terminalOf(o.stderr)), mpb.WithWidth(40))
	}
	return mpb.New(mpb.WithOutput(nil))
}

func putEverywhere(ctx context.Context, client *storage.Client, source workflow.ExternalFile, targets []*pb.UploadTarget, done func()) (task.File, error) {
	content, err := os.Open(source.Source)
	if err != nil {
		return task.File{}, usage(fmt.Errorf("file %s: %w", source.Name, err))
	}
	defer func() { _ = content.Close() }()
	file, err := describe(content, source)
	if err != nil {
		return file, usage(err)
	}
	name := path.Join("files", file.Digest.String()[:2], file.Digest.String())
	for _, target := range targets {
		element, err := client.Element(target.GetStorageUrl())
		if err != nil {
			return file, fmt.Errorf("storage element of %s: %w (upload to other sites only with --site NAME, or give the site another element: pilotage site add %s --se URL)",
				target.GetSite(), err, target.GetSite())
		}
		url, err := putOnce(ctx, element, name, file, content)
		if err != nil {
			var withCode *codedError
			if !errors.As(err, &withCode) {
				err = coded(exitUnreachable, "upload %s to %s: %w\nUpload to other sites only with --site NAME, or take this one out with `pilotage site drain %s`.",
					source.Name, target.GetSite(), err, target.GetSite())
			}
			return file, err
		}
		file.Replicas = append(file.Replicas, task.Replica{Site: task.Site(target.GetSite()), URL: url})
		done()
	}
	return file, nil
}

// putOnce uploads unless the same bytes are there already. A name made of a
// digest is a promise to every later workflow, so neither a copy that is there
// nor what is being sent is taken at its word: the one is read back, the other
// is hashed on its way, since the local file may change after it was described.
func putOnce(ctx context.Context, element storage.Element, name string, file task.File, content io.ReadSeeker) (string, error) {
	info, err := element.Head(ctx, name)
	switch {
	case err == nil && (info.Size == int64(file.Size) || info.Size < 0):
		same, err := holds(ctx, element, name, file)
		if err != nil {
			return "", err
		}
		if same {
			return info.URL, nil
		}
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return "", err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sent := &hashedContent{ReadSeeker: content, sums: newSums()}
	url, err := element.Put(ctx, name, int64(file.Size), sent)
	if errors.Is(err, storage.ErrSize) {
		return "", coded(exitConflict, "%s changed while it was uploaded: try again once it is complete: %w", file.LFN, err)
	}
	if err != nil {
		return "", err
	}
	if sent.digest() == file.Digest {
		return url, nil
	}
	// Whoever asked for the upload may have gone; the wrong bytes must go too.
	if err := element.Delete(context.WithoutCancel(ctx), name); err != nil {
		return "", fmt.Errorf("%s changed while it was uploaded; remove %s by hand, its content is wrong: %w", file.LFN, url, err)
	}
	return "", coded(exitConflict, "%s changed while it was uploaded: try again once it is complete", file.LFN)
}

// holds reads a copy back and tells whether it is the file.
func holds(ctx context.Context, element storage.Element, name string, file task.File) (bool, error) {
	content, _, err := element.Get(ctx, name, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = content.Close() }()
	found, err := sumsOf(content)
	return err == nil && found.digest() == file.Digest, err
}

// sums are the checksums of what is written to them.
type sums struct {
	blake *blake3.Hasher
	adler hash.Hash32
	size  task.Bytes
}

func newSums() *sums { return &sums{blake: blake3.New(), adler: adler32.New()} }

func sumsOf(content io.Reader) (*sums, error) {
	s := newSums()
	_, err := io.Copy(s, content)
	return s, err
}

// Write implements io.Writer.
func (s *sums) Write(p []byte) (int, error) {
	s.size += task.Bytes(len(p))
	_, _ = s.blake.Write(p)
	return s.adler.Write(p)
}

func (s *sums) digest() task.Digest { return task.Digest(s.blake.Sum(nil)) }

func (s *sums) checksum() string { return fmt.Sprintf("%08x", s.adler.Sum32()) }

// differ tells whether these are not the checksums that are known of a file.
func (s *sums) differ(digest task.Digest, checksum string) bool {
	return !digest.IsZero() && s.digest() != digest || checksum != "" && s.checksum() != checksum
}

// hashedContent hashes what is read since it was last rewound.
type hashedContent struct {
	io.ReadSeeker
	*sums
}

// Read implements io.Reader.
func (h *hashedContent) Read(p []byte) (int, error) {
	n, err := h.ReadSeeker.Read(p)
	_, _ = h.sums.Write(p[:n])
	return n, err
}

// Seek implements io.Seeker: an element that tries again begins anew.
func (h *hashedContent) Seek(offset int64, whence int) (int64, error) {
	h.sums = newSums()
	return h.ReadSeeker.Seek(offset, whence)
}

// describe computes a file's identity.
func describe(content *os.File, source workflow.ExternalFile) (task.File, error) {
	info, err := content.Stat()
	if err != nil {
		return task.File{}, err
	}
	if !info.Mode().IsRegular() {
		return task.File{}, fmt.Errorf("%s is not a regular file", source.Source)
	}
	found, err := sumsOf(content)
	if err != nil {
		return task.File{}, fmt.Errorf("read %s: %w", source.Source, err)
	}
	file := task.File{
		LFN: task.LFN(source.Name), Size: found.size, Exec: source.Exec || info.Mode()&0o111 != 0,
		Adler32: found.checksum(), Digest: found.digest(),
	}
	if found.differ(source.Digest, source.Adler32) {
		return file, fmt.Errorf("%s is not the file that the workflow describes: its checksum is %s", source.Source, file.Adler32)
	}
	return file, nil
}
