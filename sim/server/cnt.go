package server
import ("fmt";"os";"sort";"runtime";"strings";"time")
var Counts = map[string]int{}
var Durs = map[string]time.Duration{}
func Count(k string){Counts[k]++}
func DumpCounts(n int){ks:=[]string{};for k:=range Counts{ks=append(ks,k)};sort.Strings(ks);for _,k:=range ks{fmt.Fprintf(os.Stderr,"%-60s %8.1f %8.1f us total %.2f ms\n",k,float64(Counts[k])/float64(n),float64(Durs[k].Microseconds())/float64(Counts[k]),float64(Durs[k].Microseconds())/1000/float64(n))}}
func Caller() string{ var pcs [12]uintptr; k:=runtime.Callers(3,pcs[:]); fr:=runtime.CallersFrames(pcs[:k]); for{ f,more:=fr.Next(); n:=f.Function[strings.LastIndex(f.Function,"/")+1:]; if !strings.Contains(n,"Update")&&!strings.Contains(n,".must")&&!strings.Contains(n,".View")&&!strings.Contains(n,".view")&&!strings.Contains(n,"world.read[") {return n}; if !more{return "?"}} }
