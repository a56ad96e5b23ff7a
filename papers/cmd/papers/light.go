package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/papers/coadd"
	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// fileTime is what a task of the Coadd-like bags takes for each of its files.
const fileTime = 40 * time.Second

// light plays a bag on alike sites of 001's grid, with each policy.
func (p *printer) light() *cobra.Command {
	var policies []string
	sites, workers, seed, site := 0, 0, uint64(0), worksites.Site{Latency: 500 * time.Microsecond}
	command := &cobra.Command{
		Use: "light BAG", Short: "Play a bag of tasks on the grid of 001 with any of its policies, in seconds", Args: cobra.ExactArgs(1),
		Long: `Plays coadd6000 or coadd44000, bags of so many tasks like paper 001's, on alike
sites: each worker pulls tasks from one scheduler, and one data server a site loads
the inputs of one task after the other from the file server. Policies are overlap,
rest, combined, combined_printed (also with _bytes), locality, each also with .N for
one of the N best, storage_affinity and workqueue (first in, first out).`,
		Example: "  papers light coadd44000 --sites 2 --workers 32 --policy rest,combined.2,storage_affinity",
		RunE: func(_ *cobra.Command, args []string) error {
			shapes := []coadd.Shape{coadd.Small(), coadd.Full()}
			at := slices.IndexFunc(shapes, func(s coadd.Shape) bool { return s.Name == args[0] })
			if at < 0 {
				return fmt.Errorf("no bag is called %q: give coadd6000 or coadd44000", args[0])
			}
			if sites < 1 || sites > 1000 || workers < 1 || workers > 1000 {
				return errors.New("give --sites and --workers 1 to 1000")
			}
			config := worksites.Config{Workload: coadd.Generate(shapes[at], 2006).Workload(25_000_000, fileTime), Seed: seed}
			site.Speeds = slices.Repeat([]float64{1}, workers)
			config.Sites = slices.Repeat([]worksites.Site{site}, sites)
			table := &chart.Table{Header: []string{"policy", "makespan", "file transfers", "hit ratio", "busy", "requests", "hash"}}
			for _, policy := range policies {
				scheduler, err := worksites.NewScheduler(&config, policy, seed)
				if err != nil {
					return err
				}
				r, err := worksites.Run(config, scheduler)
				if err != nil {
					return err
				}
				table.Rows = append(table.Rows, []string{
					policy, r.Makespan.Round(time.Second).String(), fmt.Sprint(r.Transfers), fmt.Sprintf("%.3f", r.HitRatio()),
					fmt.Sprintf("%.3f", r.Utilisation), fmt.Sprint(r.Requests), r.Hash,
				})
			}
			return table.Text(p.out)
		},
	}
	flags := command.Flags()
	flags.IntVar(&sites, "sites", 1, "sites")
	flags.IntVar(&workers, "workers", 16, "workers of each site, of one task each")
	flags.IntVar(&site.Capacity, "capacity", 3435, "files that each site's data server keeps")
	flags.Float64Var(&site.Bandwidth, "bandwidth", 500e6, "bytes a second to each site")
	flags.Uint64Var(&seed, "seed", 1, "of the policies' draws")
	flags.StringSliceVar(&policies, "policy", []string{"locality", "overlap", "rest", "combined", "combined.2", "storage_affinity", "workqueue"}, "policies to compare")
	return command
}
